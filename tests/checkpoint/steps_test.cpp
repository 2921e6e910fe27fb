// Naming, choosing and keeping checkpoints.
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

const Path kRoot = "/run/checkpoints";
void ignore(const std::string&) {}

std::vector<std::int64_t> steps_in(FileSystem& fs) {
  std::vector<std::int64_t> steps;
  for (const auto& info : list_steps(fs, kRoot)) steps.push_back(info.complete() ? info.step : -info.step);
  return steps;
}
using Steps = std::vector<std::int64_t>;

TEST(StepNames, AreCanonical) {
  EXPECT_EQ(step_dir_name(0), "step_00000000");
  EXPECT_EQ(step_dir_name(100), "step_00000100");
  EXPECT_EQ(step_dir_name(1234567890123), "step_1234567890123");
  for (const std::int64_t step :
       {std::int64_t{0}, std::int64_t{99999999}, std::int64_t{100000000}, std::int64_t{1} << 40})
    EXPECT_EQ(step_of_dir_name(step_dir_name(step)), step);
  for (const auto* name :
       {"step_100", "step_000000100", "step_0000010x", "step_-0000001", "step_",
        "step_00000100.tmp-0123456789abcdef", "Step_00000100", "step_99999999999999999999"})
    EXPECT_FALSE(step_of_dir_name(name)) << name;
}

TEST(Steps, ListsCompleteAndBrokenOnes) {
  FaultyFileSystem fs;
  EXPECT_TRUE(list_steps(fs, kRoot).empty());
  EXPECT_FALSE(newest_complete(fs, kRoot, ignore));
  for (const int step : {3, 1, 2}) save_as(fs, kRoot, step, {}, "x");
  fs.make_dir(kRoot / "notes");
  fs.make_dir(kRoot / "step_00000007");
  fs.rename(kRoot / "step_00000001", kRoot / "step_00000009");  // not the step that it holds
  EXPECT_EQ(steps_in(fs), (Steps{2, 3, -7, -9}));
  std::vector<std::string> warnings;
  const auto newest = newest_complete(fs, kRoot, [&](const std::string& text) { warnings.push_back(text); });
  EXPECT_EQ(newest->step, 2);  // written last
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_TRUE(contains(warnings[0], "it has no manifest.json")) << warnings[0];
  EXPECT_TRUE(contains(warnings[1], "holds step 1, not the step of its name")) << warnings[1];
}

TEST(Steps, PathsOfUsersAreUnderstood) {
  FaultyFileSystem fs;
  save_as(fs, kRoot, 1, {}, "x");
  save_as(fs, kRoot, 2, {}, "x");
  EXPECT_EQ(resolve_checkpoint(fs, "/run", ignore), kRoot / "step_00000002");
  EXPECT_EQ(resolve_checkpoint(fs, kRoot, ignore), kRoot / "step_00000002");
  EXPECT_EQ(resolve_checkpoint(fs, kRoot / "step_00000001", ignore), kRoot / "step_00000001");
  EXPECT_EQ(message_of([&] { resolve_checkpoint(fs, "/none", ignore); }),
            "there is no checkpoint folder /none");
  fs.make_dir("/empty");
  EXPECT_TRUE(
      contains(message_of([&] { resolve_checkpoint(fs, "/empty", ignore); }), "/empty holds no checkpoint"));
}

// B69: an old run's step 5000 lies there; a run resumed at 400 saves 500.
class Stale : public testing::Test {
 protected:
  void SetUp() override {
    save_as(fs_, kRoot, 400, {}, "x");
    save_as(fs_, kRoot, 5000, {}, "stale");
  }
  std::vector<Path> spared() const { return {kRoot / "step_00000500", kRoot / "step_00000400"}; }
  FaultyFileSystem fs_;
};

TEST_F(Stale, TheLargestNumberIsNotTheNewest) {
  save_as(fs_, kRoot, 500, {}, "new");
  EXPECT_EQ(newest_complete(fs_, kRoot, ignore)->step, 500);
  EXPECT_EQ(prune_steps(fs_, kRoot, 1, spared()), std::vector<Path>{kRoot / "step_00005000"});
  EXPECT_EQ(steps_in(fs_), (Steps{400, 500}));
  EXPECT_EQ(wrong_after_load(fs_, kRoot / "step_00000500", {}, "new"), 0);
}

TEST_F(Stale, AFailedSaveDeletesNothing) {
  fs_.fail_when([](const std::string& op,
                   const Path& path) { return op == "append" && contains(path.string(), "manifest"); },
                "No space left on device");
  EXPECT_THROW(save_as(fs_, kRoot, 500, {}, "new"), Error);
  fs_.restart(Loss::nothing);
  EXPECT_EQ(steps_in(fs_), (Steps{400, 5000}));
}

TEST_F(Stale, ReachingTheStaleStepReplacesIt) {
  save_as(fs_, kRoot, 5000, {}, "new");
  EXPECT_EQ(newest_complete(fs_, kRoot, ignore)->step, 5000);
  EXPECT_EQ(wrong_after_load(fs_, kRoot / "step_00005000", {}, "new"), 0);
}

TEST(Prune, KeepsTheNewestAndRefusesZero) {
  FaultyFileSystem fs;
  for (int step = 1; step <= 6; ++step) save_as(fs, kRoot, step, {}, "x");
  fs.set_bytes(kRoot / "step_00000006" / "rank_00000.bin", "broken");
  EXPECT_EQ(message_of([&] { prune_steps(fs, kRoot, 0, {}); }), "at least 1 checkpoint is kept, not 0");
  EXPECT_EQ(prune_steps(fs, kRoot, 2, {kRoot / "." / "step_00000001"}).size(), 2u);
  EXPECT_EQ(steps_in(fs), (Steps{1, 4, 5, -6}));  // a broken one neither counts nor goes
}

// B69: a crash while an old checkpoint is deleted leaves it whole or gone, never half.
TEST(Prune, ACrashLeavesWholeCheckpoints) {
  for (const auto loss : kLosses)
    for (std::int64_t k = 0; k < 12; ++k) {
      FaultyFileSystem fs;
      for (int step = 1; step <= 3; ++step) save_as(fs, kRoot, step, {}, "x");
      fs.die_at(k);
      message_of([&] { prune_steps(fs, kRoot, 1, {}); });
      fs.restart(loss);
      clear_leftovers(fs, kRoot);
      const auto steps = list_steps(fs, kRoot);
      for (const auto& info : steps) ASSERT_TRUE(info.complete()) << info.problem << " call " << k;
      ASSERT_EQ(newest_complete(fs, kRoot, ignore)->step, 3);
      ASSERT_EQ(fs.list(kRoot).size(), steps.size());
    }
}

TEST(Leftovers, OnlyThoseOfStepsAreCleared) {
  FaultyFileSystem fs;
  save_as(fs, kRoot, 1, {}, "x");
  const std::vector<std::string> others = {"my.tmp-notes", "step_1.tmp-0123456789abcdef",
                                           "step_00000001.bak"};
  for (const auto& name : others) fs.make_dir(kRoot / name);
  fs.make_dir(kRoot / "step_00000002.tmp-0123456789abcdef");
  fs.make_dir(kRoot / "step_00000001.old-0123456789abcdef");
  EXPECT_EQ(clear_leftovers(fs, kRoot).size(), 2u);
  EXPECT_EQ(fs.list(kRoot).size(), 4u);
  fs.rename(kRoot / "step_00000001", kRoot / "step_00000001.old-fedcba9876543210");
  EXPECT_TRUE(clear_leftovers(fs, kRoot).empty());
  EXPECT_EQ(steps_in(fs), Steps{1});  // it got its name back
  EXPECT_TRUE(clear_leftovers(fs, "/nothing").empty());
}

}  // namespace
}  // namespace fivefold::test
