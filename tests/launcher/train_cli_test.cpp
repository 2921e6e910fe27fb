// Wrong configurations of `fivefold train`: one sentence with the rule, the values and the nearest valid
// ones, exit code 2, and nothing on the disk. And what a right one leaves.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/error.h"
#include "launcher/train_command.h"
#include "tests/support/train_run.h"

namespace fivefold {
namespace {

using Words = std::vector<std::string>;

class TrainCli : public testing::Test {
 protected:
  std::string refusal(const Words& more) {
    try {
      train_command(folder_.arguments("run", more));
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }
  // Refused with all these parts in the sentence, and no file made.
  void expect_refused(const Words& more, const Words& parts) {
    const auto before = folder_.listing();
    const auto text = refusal(more);
    for (const auto& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(folder_.listing(), before) << text;
  }
  std::string data(const std::string& file) const { return "--data.train=" + (folder_ / file).string(); }

  test::TrainFolder folder_;
};

TEST_F(TrainCli, KeysAndValues) {
  expect_refused({"--train.micro_bacth=2"}, {"train.micro_bacth", "train.micro_batch"});
  expect_refused({"--trian.micro_batch=2"}, {"trian.micro_batch", "train.micro_batch"});
  expect_refused({"--micro_batch=2"}, {"--train.micro_batch"});
  expect_refused({"--train.precision=f16"}, {"train.precision", "f16", "f32", "bf16", "f64"});
  expect_refused({"--train.global_batch=0"}, {"train.global_batch", "0", "1"});
  expect_refused({"--train.micro_batch=-1"}, {"train.micro_batch", "-1"});
  expect_refused({"--optimizer.lr=fast"}, {"optimizer.lr", "fast"});
  expect_refused({"--checkpoint.keep=0"}, {"checkpoint.keep", "0", "1"});
  expect_refused({"--optimizer.warmup_steps=13"}, {"optimizer.warmup_steps", "13", "12"});
  expect_refused({"--optimizer.min_lr=1"}, {"optimizer.min_lr", "1", "0.01"});
  expect_refused({"--config=" + (folder_ / "nowhere.conf").string()}, {"nowhere.conf"});
  expect_refused({"stray"}, {"stray"});
}

TEST_F(TrainCli, ShapesThatCannotBe) {
  expect_refused({"--model.layers=0"}, {"model.layers", "0"});
  expect_refused({"--model.heads=5"}, {"5"});
  expect_refused({"--model.kv_heads=3"}, {"model.kv_heads", "3", "2"});
  expect_refused({"--data.sequence=9"}, {"data.sequence", "9", "model.context", "8"});
  expect_refused({"--model.preset=tyny"}, {"tyny", "tiny"});
  expect_refused({"--model.preset=tiny", "--model.from_hf=x"}, {"model.preset", "model.from_hf"});
}

TEST_F(TrainCli, DegreesThatDoNotMultiplyToTheWorld) {
  expect_refused({"--ranks=4", "--parallel.shard=3"}, {"shard 3", "4 ranks"});
  expect_refused({"--ranks=6", "--parallel.replicate=4"}, {"replicate 4", "6 ranks"});
  expect_refused({"--ranks=2", "--parallel.tp=4"}, {"tp 4", "2 ranks"});
  expect_refused({"--parallel.pp=2"}, {"pp 2", "1 rank"});
}

// B37: options that contradict each other.
TEST_F(TrainCli, Contradictions) {
  expect_refused({"--parallel.stage_layers=1,1"}, {"parallel.stage_layers", "2", "1"});
  expect_refused({"--parallel.chunks=2"}, {"parallel.chunks", "2"});
  expect_refused({"--parallel.schedule=zb-v"}, {"zb-v", "parallel.chunks"});
  expect_refused({"--run.init=x", "--run.resume=y"}, {"run.init", "run.resume", "x", "y"});
  expect_refused({"--parallel.transport=mpi", "--ranks=2"}, {"mpi"});
}

// B49: experts that do not divide, more chosen than there are.
TEST_F(TrainCli, Experts) {
  const Words moe{"--model.family=qwen3_moe", "--model.experts=6", "--model.experts_per_token=2",
                  "--ranks=4"};
  const auto with = [&](const Words& more) {
    auto all = moe;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_refused(with({"--parallel.ep=4"}), {"parallel.ep", "4", "6"});
  expect_refused(with({"--model.experts_per_token=7"}), {"7", "6"});
  expect_refused(with({"--parallel.ep=3"}), {"3", "4"});
  expect_refused({"--parallel.ep=2", "--ranks=2"}, {"parallel.ep", "experts"});
}

TEST_F(TrainCli, Data) {
  expect_refused({"--data.train="}, {"data.train"});
  expect_refused({data("nowhere.tokens")}, {"nowhere.tokens"});
  folder_.write_tokens("large.tokens", 100, 100);
  expect_refused({data("large.tokens")}, {"large.tokens", "99", "model.vocab", "64", "100"});
  folder_.write_tokens("short.tokens", 8, 64);
  expect_refused({data("short.tokens")}, {"short.tokens", "8", "9", "7"});
  std::ofstream(folder_ / "empty.tokens").flush();
  expect_refused({data("empty.tokens")}, {"empty.tokens"});
  std::ofstream(folder_ / "text.tokens")
      << "This is no token file, but a text that is longer than one's header would be. "
         "It goes on and on, for it must be longer than a hundred and twenty-eight bytes.";
  expect_refused({data("text.tokens")}, {"text.tokens"});
  expect_refused({"--data.valid=" + (folder_ / "nowhere.tokens").string()}, {"nowhere.tokens"});
  expect_refused({"--data.tokenizer=byte"}, {"data.tokenizer", "byte", "test"});
}

// A change that was allowed once is no licence: the next change needs its own word.
TEST_F(TrainCli, AllowChangeIsNotInherited) {
  folder_.write_tokens("b.tokens", 179, 64, 2);
  ASSERT_EQ(train_command(folder_.arguments("run", {"--run.steps=2", "--optimizer.warmup_steps=1"})), 0);
  const Words allowed{"--run.steps=4", "--optimizer.warmup_steps=1", data("b.tokens"),
                      "--run.allow_change=data.train"};
  ASSERT_EQ(train_command(folder_.arguments("run", allowed)), 0);
  const auto text = refusal({"--run.steps=6", "--optimizer.warmup_steps=1"});  // back to a.tokens
  EXPECT_NE(text.find("run.allow_change=data.train"), std::string::npos) << text;
  EXPECT_EQ(folder_.metrics("run").size(), 4u);
  expect_refused({"--run.allow_change=data.tarin"}, {"run.allow_change", "data.tarin", "data.train"});
}

TEST_F(TrainCli, ExitCodesOfTheProgram) {
  const auto run = [&](const Words& words, const Words& environment = {}) {
    return test::run_program(folder_, words, environment);
  };
  auto finished = run({"tran"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.output.find("unknown command 'tran'; the nearest is 'train'"), std::string::npos)
      << finished.output;
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_EQ(run({"train", "--help"}).code, 0);
  EXPECT_EQ(run({"train"}).code, 2);
  EXPECT_NE(run({"--version"}).output.find("fivefold "), std::string::npos);
  const auto train = [&](const Words& more) {
    auto words = folder_.arguments("run", more);
    words.insert(words.begin(), "train");
    return words;
  };
  const auto before = folder_.listing();
  finished = run(train({"--data.sequence=9"}));
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(std::count(finished.output.begin(), finished.output.end(), '\n'), 1) << finished.output;
  finished = run(train({"--ranks=2"}), {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.output.find("--ranks"), std::string::npos) << finished.output;
  EXPECT_EQ(folder_.listing(), before);
  EXPECT_EQ(run(train({"--run.steps=2", "--optimizer.warmup_steps=1"})).code, 0);
}

// What others read: names of files, and exactly the keys of the contract.
TEST_F(TrainCli, LeavesWhatTheContractSays) {
  ASSERT_EQ(
      train_command(folder_.arguments(
          "run", {"--ranks=2", "--data.valid=" + (folder_ / "a.tokens").string(), "--data.eval_every=5"})),
      0);
  const auto run = folder_.run("run");
  for (const auto* name : {"config.resolved.conf", "metrics.jsonl", "log/rank_00000.log",
                           "log/rank_00001.log", "checkpoints/step_00000012"})
    EXPECT_TRUE(std::filesystem::exists(run / name)) << name;
  const std::set<std::string> keys{"step",
                                   "samples",
                                   "loss",
                                   "aux_loss",
                                   "grad_norm",
                                   "lr",
                                   "tokens",
                                   "valid_tokens",
                                   "step_seconds",
                                   "tokens_per_second",
                                   "tokens_per_second_per_device",
                                   "model_flops",
                                   "mfu",
                                   "memory_peak_bytes",
                                   "skipped",
                                   "expert_load_max",
                                   "expert_load_mean",
                                   "dropped",
                                   "router_z_loss",
                                   "wall_time"};
  std::vector<std::int64_t> validated;
  for (const auto& line : folder_.metrics("run")) {
    if (line.valid)
      validated.push_back(line.step);
    else
      EXPECT_EQ((std::set<std::string>(line.keys.begin(), line.keys.end())), keys);
  }
  EXPECT_EQ(validated, (std::vector<std::int64_t>{5, 10, 12}));
  // The resolved configuration runs again as it is.
  EXPECT_EQ(train_command(
                Words{"--config", (run / "config.resolved.conf").string(), "--run.name=again", "--ranks=2"}),
            0);
  EXPECT_EQ(folder_.metrics("again").back().loss, folder_.metrics("run").back().loss);
}

}  // namespace
}  // namespace fivefold
