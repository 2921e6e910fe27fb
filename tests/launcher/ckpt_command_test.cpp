// fivefold ckpt as a user calls it.
#include "launcher/ckpt_command.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "checkpoint/build.h"
#include "checkpoint/steps.h"

namespace fivefold {
namespace {

class CkptCommand : public testing::Test {
 protected:
  CkptCommand() {
    auto pattern = testing::TempDir() + "fivefold-ckpt-command-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    for (const int step : {1, 2, 3}) build(step, static_cast<float>(step == 3 ? 2 : step));
  }
  ~CkptCommand() override { std::filesystem::remove_all(folder_); }

  void build(int step, float value) {
    CheckpointBuilder builder(fs_, dir(step),
                              {.step = step, .samples = 8 * step, .seed = 5, .config = "[run]\nseed = 5\n"});
    const std::vector<float> x(12, value);
    builder.add("model/x", DType::f32, {3, 4}, whole({3, 4}), std::as_bytes(std::span(x)));
    builder.finish();
  }
  Path dir(int step) const { return folder_ / "checkpoints" / step_dir_name(step); }
  std::string output_of(const std::vector<std::string>& args, int exit_code = 0) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(ckpt_command(args), exit_code);
    return testing::internal::GetCapturedStdout();
  }
  static std::string refusal_of(const std::vector<std::string>& args) {
    try {
      ckpt_command(args);
    } catch (const UserError& error) {
      return error.what();
    }
    ADD_FAILURE() << "no UserError";
    return "";
  }
  void damage(int step) { std::filesystem::resize_file(dir(step) / "rank_00000.bin", 3); }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  PosixFileSystem fs_;
  Path folder_;
};

TEST_F(CkptCommand, ListsCompleteAndBrokenOnes) {
  damage(3);
  const auto text = output_of({"list", folder_});
  EXPECT_TRUE(contains(text, "step_00000001  ")) << text;
  EXPECT_TRUE(contains(text, " stored, 48 B raw  complete, newest\nstep_00000003  broken: ")) << text;
  EXPECT_TRUE(contains(text, "rank_00000.bin has 3 bytes where ")) << text;
  EXPECT_TRUE(contains(refusal_of({"list", folder_ / "none"}), "there is no folder"));
}

TEST_F(CkptCommand, ShowsTheNewest) {
  const auto text = output_of({"show", folder_, "--tensors", "--config"});
  EXPECT_TRUE(contains(text, "checkpoint  " + dir(3).string() + "\n")) << text;
  EXPECT_TRUE(contains(text, "step        3\nsamples     24\nseed        5\ngeneration  3\n")) << text;
  EXPECT_TRUE(contains(text, "  model/x  f32 [3, 4]  1 piece  ")) << text;
  EXPECT_TRUE(contains(text, "configuration\n[run]\nseed = 5\n")) << text;
}

TEST_F(CkptCommand, VerifiesAllOfARun) {
  EXPECT_EQ(output_of({"verify", dir(1)}), dir(1).string() + ": whole\n");
  damage(2);
  const auto text = output_of({"verify", folder_}, 1);
  EXPECT_TRUE(contains(text, dir(1).string() + ": whole\n" + dir(2).string() + ": damaged\n  ")) << text;
  EXPECT_TRUE(contains(text, dir(3).string() + ": whole\n")) << text;
}

TEST_F(CkptCommand, ComparesTwo) {
  const auto equal = output_of({"diff", dir(2), dir(3)});
  EXPECT_TRUE(contains(equal, "note: step 2 and 3\n") && contains(equal, "equal: 1 tensors, bit for bit\n"))
      << equal;
  const auto different = output_of({"diff", dir(1), dir(3)}, 1);
  EXPECT_TRUE(contains(different, "model/x: largest difference 1, 12 elements, the first at index 0\n"))
      << different;
}

TEST_F(CkptCommand, ReshardsIntoFiles) {
  const auto target = folder_ / "elsewhere" / "step_00000003";
  const auto text = output_of({"reshard", folder_, target, "--pieces", "3", "--compress=none"});
  EXPECT_TRUE(contains(text, "wrote " + target.string() + ": 48 B stored, 48 B raw\n")) << text;
  EXPECT_EQ(output_of({"verify", target}), target.string() + ": whole\n");
  EXPECT_TRUE(contains(output_of({"diff", dir(3), target}), "equal: "));
  EXPECT_TRUE(contains(refusal_of({"reshard", folder_, target}), "exists already"));
}

TEST_F(CkptCommand, PrunesAllButTheNewest) {
  EXPECT_EQ(output_of({"prune", folder_, "--keep", "2"}), "removed " + dir(1).string() + "\n");
  EXPECT_EQ(output_of({"prune", folder_, "--keep", "2"}), "nothing to remove\n");
  EXPECT_TRUE(contains(refusal_of({"prune", folder_, "--keep", "0"}), "--keep"));
  EXPECT_EQ(list_steps(fs_, folder_ / "checkpoints").size(), 2u);
}

TEST_F(CkptCommand, NamesTheNearestWord) {
  EXPECT_TRUE(
      contains(refusal_of({"verfy", folder_}), "unknown ckpt command 'verfy'; the nearest is 'verify'"));
  EXPECT_TRUE(contains(refusal_of({"show", folder_, "--tensor"}), "--tensors"));
  EXPECT_TRUE(contains(refusal_of({}), "ckpt needs a command"));
  EXPECT_TRUE(contains(output_of({"--help"}), "fivefold ckpt diff FIRST SECOND"));
  EXPECT_TRUE(contains(output_of({"prune", "--help"}), "--keep N"));
}

}  // namespace
}  // namespace fivefold
