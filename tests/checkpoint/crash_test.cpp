// Saves that are interrupted: at every change of the file system, by a killed process and by three kinds of
// power loss.
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

const Path kRoot = "/run/checkpoints";
const MeshShape kShape{.shard = 2};
const SaveOptions kOptions{.piece_bytes = 200};

std::string name_of(Loss loss) {
  constexpr const char* kNames[] = {"nothing", "bytes", "names", "both"};
  return kNames[static_cast<int>(loss)];
}

// Saves steps 1 and 2 as "one" and "two", the second one cut off at call `k`. Returns whether it got through.
bool save_two(FaultyFileSystem& fs, std::int64_t k) {
  save_as(fs, kRoot, 1, kShape, "one", kOptions);
  fs.die_at(k);
  return message_of([&] { save_as(fs, kRoot, 2, kShape, "two", kOptions); }).empty();
}

std::int64_t calls_of_a_save() {
  FaultyFileSystem fs;
  save_as(fs, kRoot, 1, kShape, "one", kOptions);
  const auto before = fs.calls();
  save_as(fs, kRoot, 2, kShape, "two", kOptions);
  return fs.calls() - before;
}

void ignore(const std::string&) {}

// B55, B57: whatever call is the last, the machine that comes back finds the newest complete checkpoint,
// loads it bit for bit, clears the rest away and saves the step again. A save that returned is never lost.
TEST(Crash, EveryCallAndEveryLossLeavesACompleteCheckpoint) {
  const auto calls = calls_of_a_save();
  ASSERT_GT(calls, 25);
  std::int64_t survived = 0;
  for (const auto loss : kLosses)
    for (std::int64_t k = 0; k <= calls; ++k) {
      SCOPED_TRACE(str("call ", k, " of ", calls, ", loss of ", name_of(loss)));
      FaultyFileSystem fs;
      const bool saved = save_two(fs, k);
      fs.restart(loss);
      const auto newest = newest_complete(fs, kRoot, ignore);
      ASSERT_TRUE(newest);
      ASSERT_TRUE(!saved || newest->step == 2);
      ASSERT_EQ(wrong_after_load(fs, newest->dir, {}, newest->step == 1 ? "one" : "two"), 0);
      survived += newest->step == 2;
      clear_leftovers(fs, kRoot);
      ASSERT_EQ(fs.list(kRoot).size(), static_cast<std::size_t>(newest->step));
      ASSERT_EQ(save_as(fs, kRoot, 2, kShape, "two", kOptions).existed, newest->step == 2);
      ASSERT_EQ(wrong_after_load(fs, kRoot / "step_00000002", {}, "two"), 0);
    }
  EXPECT_GE(survived, 4);      // at least the uninterrupted ones
  EXPECT_LT(survived, calls);  // most are cut off before the commit
}

// B55: the same while a directory of that step is replaced: the old or the new content is there after
// clearing, never neither.
TEST(Crash, ReplacingAStepNeverLosesBoth) {
  for (const auto loss : kLosses)
    for (std::int64_t k = 0;; ++k) {
      SCOPED_TRACE(str("call ", k, ", loss of ", name_of(loss)));
      FaultyFileSystem fs;
      save_as(fs, kRoot, 1, kShape, "old", kOptions);
      fs.die_at(k);
      const bool saved = message_of([&] { save_as(fs, kRoot, 1, kShape, "new", kOptions); }).empty();
      const bool through = message_of([&] { fs.kind("/"); }).empty();  // the machine still answers
      fs.restart(loss);
      clear_leftovers(fs, kRoot);
      const auto newest = newest_complete(fs, kRoot, ignore);
      ASSERT_TRUE(newest);
      const auto new_ones = wrong_after_load(fs, newest->dir, {}, "new"),
                 old_ones = wrong_after_load(fs, newest->dir, {}, "old");
      ASSERT_TRUE(saved ? new_ones == 0 : new_ones == 0 || old_ones == 0);
      if (through) break;
    }
}

// B57: each thing is durable before the next one refers to it.
TEST(Crash, OrderOfSynchronisation) {
  FaultyFileSystem fs;
  save_as(fs, kRoot, 1, {}, "one");
  std::vector<std::string> steps;
  for (auto line : fs.history()) {
    const auto tmp = line.find(".tmp-");
    if (tmp != std::string::npos) line.replace(tmp, 21, ".tmp");
    if (!line.starts_with("append") && !line.starts_with("make_dir") &&
        (steps.empty() || steps.back() != line))
      steps.push_back(line);
  }
  const std::string tmp = "/run/checkpoints/step_00000001.tmp";
  const std::vector<std::string> expected = {"sync_dir /",
                                             "sync_dir /run",  // the new parents
                                             "create " + tmp + "/rank_00000.bin",
                                             "sync " + tmp + "/rank_00000.bin",
                                             "close " + tmp + "/rank_00000.bin",
                                             "sync_dir " + tmp,
                                             "create " + tmp + "/manifest.json.tmp",
                                             "sync " + tmp + "/manifest.json.tmp",
                                             "close " + tmp + "/manifest.json.tmp",
                                             "rename " + tmp + "/manifest.json.tmp",
                                             "sync_dir " + tmp,
                                             "rename " + tmp,
                                             "sync_dir /run/checkpoints"};
  EXPECT_EQ(steps, expected);
}

// B56: a full disk anywhere fails the save on every rank with one message, costs no old checkpoint and leaves
// no rubbish.
TEST(Crash, AFullDiskIsToldToEveryRankAndCostsNothing) {
  for (const std::string target : {"rank_00001.bin", "manifest.json.tmp", ".tmp-"})
    for (const std::string operation : {"create", "append", "sync", "close", "rename", "make_dir"}) {
      FaultyFileSystem fs;
      save_as(fs, kRoot, 1, kShape, "one");
      int hits = 0;
      fs.fail_when(
          [&](const std::string& op, const Path& path) {
            const bool hit = op == operation && contains(path.string(), target);
            hits += hit;
            return hit;
          },
          "No space left on device");
      std::vector<std::string> messages(2);
      message_of([&] {
        run_ranks(2, [&](Transport& transport) {
          auto parts = parts_at(kShape, transport.world().rank());
          fill(parts, "two");
          messages[static_cast<std::size_t>(transport.world().rank())] =
              message_of([&] { save(fs, kRoot, state_at(2), parts, transport.world()); });
        });
      });
      SCOPED_TRACE(str(operation, " of ", target, ": ", messages[0]));
      EXPECT_EQ(messages[0], messages[1]);
      EXPECT_EQ(messages[0].empty(), hits == 0);
      if (hits > 0) {
        EXPECT_TRUE(contains(messages[0], "saving step 2 failed on rank") &&
                    contains(messages[0], "No space left"));
      }
      fs.restart(Loss::nothing);
      EXPECT_EQ(newest_complete(fs, kRoot, ignore)->step, hits > 0 ? 1 : 2);
      EXPECT_EQ(fs.list(kRoot).size(), hits > 0 ? 1u : 2u);
      EXPECT_EQ(wrong_after_load(fs, kRoot / "step_00000001", {}, "one"), 0);
    }
}

// B56: the same step saved twice is fine; a partial directory of that name is replaced.
TEST(Crash, AnExistingStepIsKeptIfEqualAndReplacedIfNot) {
  FaultyFileSystem fs;
  const auto first = save_as(fs, kRoot, 1, kShape, "one");
  EXPECT_FALSE(first.existed);
  const auto again = save_as(fs, kRoot, 1, kShape, "one");
  EXPECT_TRUE(again.existed);
  EXPECT_EQ(again.hash, first.hash);
  auto bytes = fs.bytes(first.dir / "rank_00000.bin");
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  fs.set_bytes(first.dir / "rank_00000.bin", bytes);  // right size, wrong content
  EXPECT_FALSE(save_as(fs, kRoot, 1, kShape, "one").existed);
  fs.remove(first.dir / "manifest.json");
  EXPECT_FALSE(save_as(fs, kRoot, 1, kShape, "one").existed);
  EXPECT_FALSE(save_as(fs, kRoot, 1, kShape, "two").existed);
  EXPECT_EQ(wrong_after_load(fs, first.dir, {}, "two"), 0);
  EXPECT_EQ(fs.list(kRoot).size(), 1u);
}

// B56: the directory that was to be replaced gets its name back when the new one cannot take it.
TEST(Crash, AFailedReplacementLeavesTheOldOne) {
  FaultyFileSystem fs;
  const auto dir = save_as(fs, kRoot, 1, kShape, "old").dir;
  fs.fail_when([](const std::string& op,
                  const Path& path) { return op == "rename" && contains(path.filename().string(), ".tmp-"); },
               "Disk quota exceeded");
  EXPECT_THROW(save_as(fs, kRoot, 1, kShape, "new"), Error);
  fs.restart(Loss::nothing);
  EXPECT_EQ(wrong_after_load(fs, dir, {}, "old"), 0);
  EXPECT_EQ(fs.list(kRoot).size(), 1u);
}

// The parts of a save can be driven apart, as a background writer does; a failing part fails all.
TEST(Crash, AFailingPartFailsTheCommitEverywhere) {
  FaultyFileSystem fs;
  std::vector<std::string> messages(3);
  run_ranks(3, [&](Transport& transport) {
    auto& world = transport.world();
    const auto temporary = begin_save(fs, kRoot, 4, world);
    const auto part = [&]() -> Manifest {
      if (world.rank() == 1) throw Error("the writer died");
      return {};
    };
    messages[static_cast<std::size_t>(world.rank())] =
        message_of([&] { commit_save(fs, kRoot, temporary, state_at(4), part, world); });
  });
  for (const auto& message : messages) EXPECT_EQ(message, "saving step 4 failed on rank 1: the writer died");
  EXPECT_TRUE(fs.list(kRoot).empty());
}

}  // namespace
}  // namespace fivefold::test
