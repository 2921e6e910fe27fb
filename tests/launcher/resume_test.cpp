// Runs that stop and go on: bit for bit what an uninterrupted run does, under another number of ranks in
// value, and from weights of elsewhere.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "checkpoint/diff.h"
#include "checkpoint/steps.h"
#include "core/error.h"
#include "launcher/hf_import.h"
#include "launcher/train_command.h"
#include "tests/support/train_run.h"

namespace fivefold {
namespace {

using test::MetricsLine;
using Words = std::vector<std::string>;

// One epoch is 22 samples, a step 4: step 6 takes its samples from both sides of the edge.
class Resume : public testing::Test {
 protected:
  int train(const std::string& name, const Words& more) {
    return train_command(folder_.arguments(name, more));
  }
  // A run that keeps every checkpoint, from start to end.
  void uninterrupted(const Words& more) {
    auto all = more;
    all.insert(all.end(), {"--checkpoint.every=1", "--checkpoint.keep=100"});
    ASSERT_EQ(train("whole", all), 0);
  }
  // As if the job had died right after the save of `step`.
  void restart_from(std::int64_t step, const std::string& name) {
    std::filesystem::create_directories(folder_.run(name) / "checkpoints");
    std::filesystem::copy(folder_.checkpoint("whole", step), folder_.checkpoint(name, step),
                          std::filesystem::copy_options::recursive);
  }
  CheckpointDiff difference(const std::string& a, const std::string& b, std::int64_t step) {
    return diff_checkpoints(fs_, folder_.checkpoint(a, step), folder_.checkpoint(b, step));
  }
  std::string refusal(const std::string& name, const Words& more) {
    try {
      train(name, more);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }

  PosixFileSystem fs_;
  test::TrainFolder folder_;
};

void expect_same_line(const MetricsLine& a, const MetricsLine& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.valid_tokens, b.valid_tokens);
  EXPECT_EQ(a.loss, b.loss) << "step " << a.step;
  EXPECT_EQ(a.grad_norm, b.grad_norm) << "step " << a.step;
  EXPECT_EQ(a.lr, b.lr) << "step " << a.step;
}

// B64, B70, B77: from three points, one right behind the epoch's edge: losses, norms, rates, samples, then
// weights and both moments bit for bit, on one rank and on three, in f32 and in bf16 with its f32 masters.
TEST_F(Resume, IsBitwiseEqualToTheUninterruptedRun) {
  for (const auto& more :
       {Words{"--ranks=3"}, Words{"--train.precision=bf16"}, Words{"--train.precision=f64", "--ranks=2"}}) {
    uninterrupted(more);
    const auto whole = folder_.metrics("whole");
    ASSERT_EQ(whole.size(), 12u);
    for (const std::int64_t point : {2, 6, 11}) {
      restart_from(point, "part");
      ASSERT_EQ(train("part", more), 0);
      const auto part = folder_.metrics("part");
      ASSERT_EQ(part.size(), 12u - static_cast<std::size_t>(point));
      for (std::size_t i = 0; i < part.size(); ++i)
        expect_same_line(part[i], whole[static_cast<std::size_t>(point) + i]);
      const auto diff = difference("whole", "part", 12);
      EXPECT_TRUE(diff.equal());
      EXPECT_GT(diff.compared, 30);
      std::filesystem::remove_all(folder_.run("part"));
    }
    std::filesystem::remove_all(folder_.run("whole"));
  }
}

// The comparison can fail: other data behind the same weights.
TEST_F(Resume, AnotherSeedShows) {
  uninterrupted({});
  restart_from(6, "part");
  ASSERT_EQ(train("part", {"--run.seed=4", "--run.allow_change=run.seed"}), 0);
  EXPECT_FALSE(difference("whole", "part", 12).equal());
}

// B70: the step is the number of updates, in the name, in the manifest and in the metrics.
TEST_F(Resume, StepsCountUpdates) {
  uninterrupted({});
  const auto lines = folder_.metrics("whole");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(lines[i].samples, 4 * lines[i].step);
  }
  for (std::int64_t step = 1; step <= 12; ++step) {
    const auto manifest = read_manifest(fs_, folder_.checkpoint("whole", step));
    EXPECT_EQ(manifest.state.step, step);
    EXPECT_EQ(manifest.state.samples, 4 * step);
  }
  EXPECT_DOUBLE_EQ(lines[0].lr, 1e-2 / 3);  // the first of three updates of warmup
  EXPECT_DOUBLE_EQ(lines[2].lr, 1e-2);
}

// B67, B78: a run of two ranks goes on with three, one and four.
TEST_F(Resume, GoesOnUnderAnotherNumberOfRanks) {
  const Words f64{"--train.precision=f64"};
  const auto on = [&](const char* ranks) { return Words{f64[0], ranks}; };
  uninterrupted(on("--ranks=2"));
  const auto whole = folder_.metrics("whole");
  for (const char* ranks : {"--ranks=3", "--ranks=1", "--ranks=4"}) {
    restart_from(6, "part");
    ASSERT_EQ(train("part", on(ranks)), 0);
    const auto part = folder_.metrics("part");
    ASSERT_EQ(part.size(), 6u);
    for (std::size_t i = 0; i < part.size(); ++i) {
      EXPECT_EQ(part[i].samples, whole[6 + i].samples);
      EXPECT_EQ(part[i].lr, whole[6 + i].lr);
      EXPECT_NEAR(part[i].loss, whole[6 + i].loss, 1e-10) << ranks;
    }
    const auto diff = difference("whole", "part", 12);
    EXPECT_TRUE(diff.only_in_first.empty() && diff.only_in_second.empty());
    for (const auto& t : diff.tensors) EXPECT_LT(t.max_abs, 1e-10) << t.name << ' ' << ranks;
    std::filesystem::remove_all(folder_.run("part"));
  }
}

// Sends a signal to this process once the run has written `lines` lines.
class Stopper {
 public:
  Stopper(std::filesystem::path metrics, std::size_t lines, int signal)
      : thread_([=, this] {
          while (!ended_ && test::read_metrics(metrics).size() < lines)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          if (!ended_) kill(getpid(), signal);
        }) {}
  ~Stopper() {
    ended_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

// B77, B93: the same command three times, stopped twice by signals of different kinds within and across
// epochs.
TEST_F(Resume, StoppedByASignalTheSameCommandGoesOn) {
  const Words endless{"--run.steps=1000000", "--optimizer.decay=constant", "--ranks=2"};
  std::size_t lines = 0;
  std::int64_t last = 0;
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP}) {
    const Stopper stopper(folder_.run("part") / "metrics.jsonl", lines + 3, signal);
    ASSERT_EQ(train("part", endless), 75);
    const auto metrics = folder_.metrics("part");
    ASSERT_GE(metrics.size(), lines + 3);
    last = metrics.back().step;
    const auto newest = newest_complete(fs_, folder_.run("part") / "checkpoints", {});
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->step, last);
    lines = metrics.size();
  }
  const auto steps = "--run.steps=" + std::to_string(last + 2);
  const Words to_the_end{steps, "--optimizer.decay=constant", "--ranks=2"};
  ASSERT_EQ(train("part", to_the_end), 0);
  ASSERT_EQ(train("whole", to_the_end), 0);
  const auto part = folder_.metrics("part"), whole = folder_.metrics("whole");
  ASSERT_EQ(part.size(), whole.size());
  for (std::size_t i = 0; i < part.size(); ++i) expect_same_line(part[i], whole[i]);
  EXPECT_TRUE(difference("part", "whole", last + 2).equal());
}

// A run that has done its steps does nothing when it is started again.
TEST_F(Resume, AFinishedRunStaysAsItIs) {
  ASSERT_EQ(train("whole", {}), 0);
  const auto lines = folder_.metrics("whole").size();
  const auto before = read_manifest_text(fs_, folder_.checkpoint("whole", 12));
  ASSERT_EQ(train("whole", {}), 0);
  EXPECT_EQ(folder_.metrics("whole").size(), lines);
  EXPECT_EQ(read_manifest_text(fs_, folder_.checkpoint("whole", 12)), before);
}

// A crash behind the last save: the steps that are done again appear once in the metrics.
TEST_F(Resume, SamplesAreUniquePerLineAfterACrash) {
  uninterrupted({});
  for (const std::int64_t step : {10, 11, 12}) std::filesystem::remove_all(folder_.checkpoint("whole", step));
  ASSERT_EQ(train("whole", {}), 0);
  const auto lines = folder_.metrics("whole");
  ASSERT_EQ(lines.size(), 12u);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(lines[i].samples, 4 * (static_cast<std::int64_t>(i) + 1));
}

// run.steps counts attempts, whatever they took before: a larger batch from here on does not repeat any.
TEST_F(Resume, ABatchOfAnotherSizeGoesOnAtTheSameStep) {
  uninterrupted({});
  restart_from(6, "part");
  ASSERT_EQ(train("part", {"--train.global_batch=8"}), 0);
  const auto part = folder_.metrics("part");
  ASSERT_EQ(part.size(), 6u);
  EXPECT_EQ(part[0].step, 7);
  EXPECT_EQ(part[0].samples, 6 * 4 + 8);
  EXPECT_EQ(part[5].step, 12);
}

TEST_F(Resume, KeepsTheNewestAndTheOneItCameFrom) {
  uninterrupted({});
  restart_from(6, "part");
  ASSERT_EQ(train("part", {"--checkpoint.every=1", "--checkpoint.keep=2"}), 0);
  std::vector<std::int64_t> kept;
  for (const auto& step : list_steps(fs_, folder_.run("part") / "checkpoints")) kept.push_back(step.step);
  EXPECT_EQ(kept, (std::vector<std::int64_t>{6, 11, 12}));
  ASSERT_EQ(train("fresh", {"--checkpoint.every=1", "--checkpoint.keep=2"}), 0);
  EXPECT_EQ(list_steps(fs_, folder_.run("fresh") / "checkpoints").size(), 2u);
}

// B69: an old step 5000 of another life is neither the newest nor kept in the place of what was just saved.
TEST_F(Resume, FromAPathIntoAFolderWithALargerStep) {
  uninterrupted({});
  ASSERT_EQ(train("old", {"--run.steps=20", "--checkpoint.keep=1"}), 0);  // step 20
  ASSERT_EQ(train("old", {"--run.resume=" + folder_.checkpoint("whole", 6).string(), "--checkpoint.keep=1",
                          "--run.steps=9"}),
            0);
  const auto newest = newest_complete(fs_, folder_.run("old") / "checkpoints", {});
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 9);
}

TEST_F(Resume, NeverStartsOver) {
  ASSERT_EQ(train("whole", {}), 0);
  ASSERT_EQ(train("whole", {"--run.resume=never", "--run.steps=3", "--optimizer.decay_steps=9"}), 0);
  EXPECT_EQ(folder_.metrics("whole").back().step, 3);
}

// Weights of elsewhere: with a rate that is zero in f32 they are still there after the step; moments and step
// are fresh.
TEST_F(Resume, InitTakesWeightsOnly) {
  uninterrupted({});
  const Words still{"--optimizer.lr=1e-300", "--optimizer.min_lr=0", "--run.steps=1",
                    "--optimizer.warmup_steps=0"};
  auto from = still;
  from.push_back("--run.init=" + folder_.run("whole").string());  // its newest
  ASSERT_EQ(train("init", from), 0);
  const auto diff = diff_checkpoints(fs_, folder_.checkpoint("init", 1), folder_.checkpoint("whole", 12));
  EXPECT_FALSE(diff.tensors.empty());
  for (const auto& t : diff.tensors) EXPECT_TRUE(t.name.starts_with("adam_")) << t.name;
  EXPECT_EQ(folder_.metrics("init").front().step, 1);
  from[2] = "--run.steps=2";
  ASSERT_EQ(train("init", from), 0);  // goes on from its own checkpoint
  EXPECT_EQ(folder_.metrics("init").back().step, 2);
  EXPECT_EQ(folder_.metrics("init").size(), 2u);
}

TEST_F(Resume, InitFromHuggingFaceFolders) {
  for (const char* name : {"qwen2", "llama_bf16_sharded"}) {
    const auto hf = (Path(FIVEFOLD_FIXTURES) / "hf" / name).string();
    folder_.write_tokens("hf.tokens", 400, 100);
    ASSERT_EQ(train_command(Words{"--run.dir=" + (folder_ / "runs").string(), str("--run.name=", name),
                                  "--run.steps=1", "--model.from_hf=" + hf, "--run.init=" + hf,
                                  "--data.train=" + (folder_ / "hf.tokens").string(), "--data.sequence=16",
                                  "--train.global_batch=2", "--optimizer.lr=1e-300", "--log.level=error",
                                  "--ranks=2"}),
              0);
    import_hf(fs_, hf, folder_ / (std::string("imported_") + name));
    const auto diff =
        diff_checkpoints(fs_, folder_ / (std::string("imported_") + name), folder_.checkpoint(name, 1));
    EXPECT_TRUE(diff.only_in_first.empty());
    for (const auto& t : diff.tensors) EXPECT_EQ(t.max_abs, 0) << name << ' ' << t.name;
    EXPECT_GT(diff.compared, 10);
  }
}

TEST_F(Resume, RefusesAnotherRun) {
  ASSERT_EQ(train("whole", {}), 0);
  const auto whole = folder_.checkpoint("whole", 12).string();
  const auto expect = [&](const Words& more, const Words& parts) {
    const auto before = folder_.listing();
    const auto text = refusal("other", more);
    for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    EXPECT_EQ(folder_.listing(), before) << text;
  };
  const auto resume = "--run.resume=" + whole;
  expect({resume, "--model.ffn=11"}, {"model.ffn", "10", "11", "run.allow_change"});
  expect({resume, "--run.seed=9"}, {"run.seed", "3", "9", "run.allow_change"});
  expect({resume, "--data.sequence=4"}, {"data.sequence", "run.allow_change"});
  expect({resume, "--data.documents=join"}, {"data.documents", "mask", "join"});
  expect({resume, "--data.order=sequential"}, {"data.order", "shuffle", "sequential"});
  folder_.write_tokens("b.tokens", 179, 64, 2);
  expect({resume, "--data.train=" + (folder_ / "b.tokens").string()}, {"data.train", "hash"});
  // A change that is allowed by name must still fit: the tensors have another shape.
  expect({resume, "--model.ffn=11", "--run.allow_change=model.ffn"}, {"mlp"});
  expect({"--run.resume=" + (folder_ / "nowhere").string()}, {"nowhere"});
  expect({"--run.init=" + (folder_ / "nowhere").string()}, {"nowhere"});
  expect({resume, "--run.init=" + whole}, {"run.init", "run.resume"});
  EXPECT_EQ(train("other", {resume, "--run.steps=13", "--data.train=" + (folder_ / "b.tokens").string(),
                            "--run.allow_change=data.train"}),
            0);
}

}  // namespace
}  // namespace fivefold
