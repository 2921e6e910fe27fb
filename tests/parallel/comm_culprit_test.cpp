// Naming the rank that keeps a transfer from ending, from what the ranks tell; and the two threads that find
// out, over ranks that are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "parallel/comm/culprit.h"
#include "parallel/comm/thread_world.h"
#include "parallel/comm/watch.h"

namespace fivefold {
namespace {

LedgerRecord collective(const std::string& group, const std::vector<int>& members, std::int64_t sequence,
                        bool done) {
  LedgerRecord r;
  r.group = group, r.members = members, r.sequence = sequence, r.op = CommOp::all_gather,
  r.done_ns = done ? 1 : 0;
  return r;
}

LedgerRecord message(CommOp op, int rank, int peer, std::int64_t sequence) {
  auto r = collective("pp", {0, 1, 2, 3}, sequence, false);
  r.op = op, r.rank = rank, r.peer = peer;
  return r;
}

RankReport report(std::vector<LedgerRecord> records, const std::string& activity = "") {
  return {true, activity, std::move(records)};
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

TEST(Culprit, ReportsAreTextAndBack) {
  auto record = message(CommOp::recv, 2, 1, 7);
  record.stage = 3, record.micro_batch = 4;
  const auto back =
      report_from(to_text(report({record, collective("tp/x#2", {5, 9}, 812, true)}, "data/next batch")));
  EXPECT_TRUE(back.answered);
  EXPECT_EQ(back.activity, "data/next batch");
  ASSERT_EQ(back.records.size(), 2u);
  EXPECT_EQ(back.records[0].op, CommOp::recv);
  EXPECT_EQ(back.records[0].peer, 1);
  EXPECT_EQ(back.records[0].micro_batch, 4);
  EXPECT_EQ(back.records[1].group, "tp/x#2");
  EXPECT_EQ(back.records[1].members, (std::vector<int>{5, 9}));
  EXPECT_GT(back.records[1].done_ns, 0);
  EXPECT_FALSE(report_from("").answered);
}

TEST(Culprit, TheRankThatNeverLaunched) {
  auto stuck = collective("tp", {0, 1}, 812, false);
  stuck.stage = 5, stuck.micro_batch = 2;
  const std::vector<RankReport> reports{report({stuck}),
                                        report({collective("tp", {0, 1}, 811, true)}, "data/next_batch")};
  EXPECT_EQ(name_culprit(stuck, 0, reports),
            "tp #812 all_gather of world ranks 0,1, stage 5 micro-batch 2: world rank 1 never launched it "
            "and is in "
            "data/next_batch");
}

// Rank 0 waits for 1, which waits for 2 elsewhere, which is the one at work.
TEST(Culprit, IsFollowedThroughOtherGroups) {
  const auto stuck = collective("tp", {0, 1}, 3, false), other = collective("pp", {1, 2}, 9, false);
  const std::vector<RankReport> reports{report({stuck}), report({other}), report({}, "checkpoint/save")};
  expect_words(name_culprit(stuck, 0, reports), {"pp #9", "world rank 2", "checkpoint/save"});
}

TEST(Culprit, SilentRanksAreNamedAndAllOfThem) {
  const auto stuck = collective("world", {0, 1, 2, 3}, 3, false);
  const std::vector<RankReport> reports{report({stuck}), {}, report({stuck}), {}};
  const auto text = name_culprit(stuck, 0, reports);
  expect_words(text, {"world rank 1 does not answer", "world rank 3 does not answer"});
  EXPECT_EQ(text.find("world rank 2 "), std::string::npos) << text;
}

// The far end of a message has the opposite operation, and counts by pair.
TEST(Culprit, MessagesAreMatchedByPair) {
  const auto stuck = message(CommOp::send, 0, 1, 4);
  std::vector<RankReport> reports(4, report({}, "step"));
  reports[0] = report({stuck});
  reports[1] = report({message(CommOp::recv, 1, 0, 4)});
  expect_words(name_culprit(stuck, 0, reports), {"all its ranks launched it"});
  reports[1] = report({message(CommOp::recv, 1, 0, 3)});
  reports[1].records[0].done_ns = 1;
  expect_words(name_culprit(stuck, 0, reports), {"pp #4 send", "world rank 1 never launched it"});
  reports[1] = report({message(CommOp::recv, 1, 2, 4)});  // it waits for rank 2, which is busy
  expect_words(name_culprit(stuck, 0, reports),
               {"pp #4 recv of world ranks 1,2", "world rank 2 never", "in step"});
}

TEST(Culprit, WithoutOneTheDeviceIsBlamed) {
  const auto stuck = collective("tp", {0, 1}, 3, false);
  const std::vector<RankReport> reports{report({stuck}), report({stuck})};
  expect_words(name_culprit(stuck, 0, reports), {"tp #3", "a device or the network hangs"});
}

// Rank 1 stays away from a barrier; rank 0's watch asks it over a socket and tells.
TEST(WatchTest, NamesTheRankThatStaysAway) {
  std::atomic<bool> told{false};
  std::string text;
  run_ranks(3, [&](Transport& transport) {
    auto& world = transport.world();
    WatchOptions options{.deadline = [](const auto&) { return std::chrono::milliseconds(300); }};
    options.end = [&, rank = world.rank()](const std::string& why) {
      if (rank != 0) return;  // the others speak later
      text = why;
      told = true;
    };
    const Watch watch(transport, options);
    if (world.rank() == 1) {
      world.ledger().set_activity("data/next_batch");
      while (!told) std::this_thread::yield();
    }
    world.barrier();
  });
  expect_words(text, {"did not end within 0.3 s", "world #1 host of world ranks 0,1,2", "world rank 1 never",
                      "is in data/next_batch"});
}

TEST(WatchTest, IsSilentWhileTransfersEnd) {
  run_ranks(3, [&](Transport& transport) {
    WatchOptions options{.deadline = [](const auto&) { return std::chrono::milliseconds(2000); }};
    options.end = [](const std::string& why) { ADD_FAILURE() << why; };
    const Watch watch(transport, options);
    for (int i = 0; i < 200; ++i) transport.world().barrier();
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  });
}

}  // namespace
}  // namespace fivefold
