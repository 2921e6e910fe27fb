// What would hang or diverge under NCCL fails here, soon, with a message that names ranks, group, operation
// and sequence.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "parallel/comm/thread_world.h"

namespace fivefold {
namespace {

using Clock = std::chrono::steady_clock;
constexpr ThreadOptions kPatient{.patience = std::chrono::seconds(60)};
constexpr ThreadOptions kImpatient{.patience = std::chrono::milliseconds(500)};

// One rank's tools.
struct Rank {
  explicit Rank(Transport& t) : transport(t), world(t.world()), me(t.world().rank()) {}
  Tensor make(std::int64_t count = 4, DType dtype = DType::f32) {
    const auto t = empty(*memory, {count}, dtype, Tag::communication, stream);
    std::fill_n(t.raw(), t.bytes(), std::byte{0});
    return t;
  }
  void sum(Communicator& comm) { comm.all_reduce(make(), Reduce::sum, stream).wait(stream); }

  Transport& transport;
  Communicator& world;
  int me;
  std::shared_ptr<Memory> memory = make_cpu_memory();
  CpuStream stream;
};

// What run_ranks throws; fails the test when that takes long.
std::string failure_of(int ranks, const std::function<void(Rank&)>& body,
                       const ThreadOptions& options = kPatient) {
  const auto start = Clock::now();
  std::string text = "nothing failed";
  try {
    run_ranks(
        ranks,
        [&](Transport& t) {
          Rank rank(t);
          body(rank);
        },
        options);
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5)) << text;
  return text;
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

// B87: equal order within each group is not enough.
TEST(Deadlock, ThreeGroupsInACircleAreNamed) {
  const auto text = failure_of(3, [](Rank& r) {
    const int next = (r.me + 1) % 3, before = (r.me + 2) % 3;
    const auto name = [](int first) { return str("circle", first); };
    std::unique_ptr<Communicator> with_next, with_before;
    if (r.me == 0) with_next = r.transport.create(name(0), {0, 1});
    if (r.me == 1) with_before = r.transport.create(name(0), {0, 1});
    if (r.me == 1) with_next = r.transport.create(name(1), {1, 2});
    if (r.me == 2) with_before = r.transport.create(name(1), {1, 2});
    if (r.me == 2) with_next = r.transport.create(name(2), {2, 0});
    if (r.me == 0) with_before = r.transport.create(name(2), {2, 0});
    ASSERT_EQ(with_next->members()[1], next);
    ASSERT_EQ(with_before->members()[0], before);
    r.sum(*with_next);
    r.sum(*with_before);
  });
  expect_parts(
      text, {"circle", "all_reduce #0 of group circle0 {0,1}", "group circle1 {1,2}", "group circle2 {2,0}"});
}

// Two groups of the same ranks in opposite order, nobody waiting in between (an overlapped step).
TEST(Deadlock, OppositeOrderOfTwoGroups) {
  const auto text = failure_of(2, [](Rank& r) {
    const auto tp = r.transport.create("tp", {0, 1}), dp = r.transport.create("dp", {0, 1});
    const auto a = r.make(), b = r.make();
    auto first = (r.me == 0 ? tp : dp)->all_reduce(a, Reduce::sum, r.stream);
    auto second = (r.me == 0 ? dp : tp)->all_reduce(b, Reduce::sum, r.stream);
    second.wait(r.stream);
    first.wait(r.stream);
  });
  expect_parts(text, {"circle", "group tp {0,1}", "group dp {0,1}"});
}

TEST(Deadlock, SendsMeetTheirReceivers) {
  const auto text = failure_of(2, [](Rank& r) {
    r.world.send(r.make(), 1 - r.me, r.stream).wait(r.stream);
    r.world.recv(r.make(), 1 - r.me, r.stream).wait(r.stream);
  });
  expect_parts(text, {"circle", "send #0 from rank 0 to rank 1 of group world {0,1}",
                      "send #0 from rank 1 to rank 0"});
}

TEST(Deadlock, APartnerThatEndedIsNamed) {
  const auto text = failure_of(3, [](Rank& r) {
    if (r.me != 1) r.sum(r.world);
  });
  expect_parts(text, {"all_reduce #0 of group world {0,1,2}",
                      "waits for rank 1, which has ended without launching it"});
}

TEST(Deadlock, AHostExchangeKeepsTheOrderToo) {
  const auto text = failure_of(2, [](Rank& r) {
    const auto a = r.make();
    if (r.me == 1) return r.sum(r.world), r.world.barrier();
    auto sum = r.transport.create("other", {0, 1});
    r.world.barrier();
    r.sum(r.world);
  });
  expect_parts(text, {"ranks disagree", "host", "all_reduce"});
}

// B88: the one who is late is named, with what it does.
TEST(Patience, NamesWhoIsLateAndWhatItDoes) {
  const auto text = failure_of(
      3,
      [](Rank& r) {
        r.sum(r.world);
        if (r.me == 1) {
          r.world.ledger().set_activity("data/next_batch");
          std::this_thread::sleep_for(std::chrono::seconds(2));
        }
        r.sum(r.world);
      },
      kImpatient);
  expect_parts(text, {"rank ", "waited 0.",
                      "at all_reduce #1 of group world {0,1,2}; not there: rank 1 (in data/next_batch)"});
}

TEST(Patience, IsNotTriedByAnotherRanksLongWork) {
  const auto text = failure_of(2, [](Rank& r) {
    if (r.me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    r.sum(r.world);
  });
  EXPECT_EQ(text, "nothing failed");
}

struct Disagreement {
  std::string name;
  std::function<void(Rank&)> body;
  std::vector<std::string> parts;
};
void PrintTo(const Disagreement& disagreement, std::ostream* out) { *out << disagreement.name; }
class Disagree : public testing::TestWithParam<Disagreement> {};
TEST_P(Disagree, BothValuesAreNamed) { expect_parts(failure_of(2, GetParam().body), GetParam().parts); }

void ragged(Rank& r, std::int64_t to_other, std::int64_t from_other) {
  const auto rows = [&](std::int64_t other) {
    return r.me == 0 ? std::vector<std::int64_t>{1, other} : std::vector<std::int64_t>{other, 1};
  };
  const auto in = r.make(1 + to_other), out = r.make(1 + from_other);
  r.world.all_to_all(out, rows(from_other), in, rows(to_other), r.stream).wait(r.stream);
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, Disagree,
    testing::Values(
        Disagreement{
            "Size",
            [](Rank& r) { r.world.all_reduce(r.make(4 + r.me), Reduce::sum, r.stream).wait(r.stream); },
            {"all_reduce #0 of group world {0,1}", "all_reduce sum f32 of 16 bytes",
             "all_reduce sum f32 of 20 bytes"}},
        Disagreement{"DType",
                     [](Rank& r) {
                       r.world.all_reduce(r.make(4, r.me ? DType::i32 : DType::f32), Reduce::sum, r.stream)
                           .wait(r.stream);
                     },
                     {"rank 0 has all_reduce sum f32", "rank 1 has all_reduce sum i32"}},
        Disagreement{
            "Reduction",
            [](Rank& r) {
              r.world.all_reduce(r.make(), r.me ? Reduce::max : Reduce::sum, r.stream).wait(r.stream);
            },
            {"all_reduce sum f32", "all_reduce max f32"}},
        Disagreement{"Operation",
                     [](Rank& r) {
                       if (r.me == 0) return r.sum(r.world);
                       r.world.all_gather(r.make(4), r.make(2), r.stream).wait(r.stream);
                     },
                     {"all_reduce sum f32 of 16 bytes", "all_gather f32 of 16 bytes"}},
        Disagreement{"Message",
                     [](Rank& r) {
                       if (r.me == 0) r.world.send(r.make(3), 1, r.stream).wait(r.stream);
                       if (r.me == 1) r.world.recv(r.make(5), 0, r.stream).wait(r.stream);
                     },
                     {"send #0 from rank 0 to rank 1", "12 bytes", "20 bytes"}},
        Disagreement{"Rows",
                     [](Rank& r) { ragged(r, 2, r.me == 0 ? 2 : 3); },
                     {"all_to_all #0 of group world {0,1}", "2 vs 3"}}),
    [](const auto& one) { return one.param.name; });

// B85: whatever a rank is doing when it fails, all others stop at once and the first failure is told, once,
// with its rank.
TEST(Failure, StopsTheOthersInEveryKindOfTransfer) {
  for (int kind = 0; kind < 5; ++kind) {
    std::atomic<int> stopped = 0;
    const auto text = failure_of(4, [&](Rank& r) {
      if (r.me == 2) throw Error("bad loss");
      try {
        if (kind == 0) r.sum(r.world);
        if (kind == 1) r.world.barrier();
        if (kind == 2) r.world.recv(r.make(), 2, r.stream).wait(r.stream);
        if (kind == 3) r.world.send(r.make(), 2, r.stream).wait(r.stream);
        if (kind == 4) r.world.all_gather(r.make(8), r.make(2), r.stream).wait(r.stream);
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
        ++stopped;
        throw;
      }
    });
    EXPECT_EQ(text, "rank 2: bad loss");
    EXPECT_EQ(stopped, 3);
  }
}

TEST(Failure, StopsRanksThatHaveNotArrivedYet) {
  const auto text = failure_of(2, [](Rank& r) {
    if (r.me == 0) throw Error("first");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    r.sum(r.world);
  });
  EXPECT_EQ(text, "rank 0: first");
}

TEST(Failure, KeepsUserErrorsAndForeignExceptions) {
  const auto fail_on_one = [](Transport& t) {
    if (t.world().rank() == 1) throw UserError("tp must divide heads");
    t.world().barrier();
  };
  try {
    run_ranks(2, fail_on_one);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "rank 1: tp must divide heads");
  }
  EXPECT_EQ(failure_of(2,
                       [](Rank& r) {
                         if (r.me == 0) throw 7;
                         r.sum(r.world);
                       }),
            "rank 0: unknown exception");
}

TEST(Failure, AbortWakesEverybody) {
  const auto text = failure_of(3, [](Rank& r) {
    if (r.me == 0) return r.world.abort("deadline passed");
    r.sum(r.world);
  });
  EXPECT_EQ(text, "rank 0: deadline passed");
}

TEST(Failure, InsideAGroupLaunchesNothing) {
  const auto text = failure_of(2, [](Rank& r) {
    Work work;
    Group group(r.world);
    work = r.world.send(r.make(), 1 - r.me, r.stream);
    throw Error(str("in the group"));
  });
  expect_parts(text, {": in the group"});
}

TEST(Misuse, WaitingInsideTheGroup) {
  const auto text = failure_of(2, [](Rank& r) {
    Group group(r.world);
    r.sum(r.world);
  });
  expect_parts(text, {"waited for inside its Group"});
}

TEST(Misuse, DroppingAnUnwaitedWorkFailsTheNextUse) {
  const auto text = failure_of(2, [](Rank& r) {
    { const auto dropped = r.world.all_reduce(r.make(), Reduce::sum, r.stream); }
    r.sum(r.world);
  });
  expect_parts(text, {"was never waited for", "world"});
  const auto replaced = failure_of(2, [](Rank& r) {
    auto work = r.world.all_reduce(r.make(), Reduce::sum, r.stream);
    work = r.world.all_reduce(r.make(), Reduce::sum, r.stream);
    work.wait(r.stream);
    r.sum(r.world);
  });
  expect_parts(replaced, {"was never waited for"});
}

TEST(Misuse, EndingWithATransferWithoutPartner) {
  const auto text = failure_of(2, [](Rank& r) {
    if (r.me == 1) static_cast<void>(r.world.send(r.make(), 0, r.stream));
  });
  EXPECT_EQ(text, "rank 1: ended with send #0 from rank 1 to rank 0 of group world {0,1} unfinished");
}

// Apart these would be a circle; as one launch they are not.
TEST(Groups, SpanCommunicatorsOfARank) {
  const auto text = failure_of(2, [](Rank& r) {
    const auto a = r.transport.create("a", {0, 1}), b = r.transport.create("b", {0, 1});
    auto &first = r.me == 0 ? *a : *b, &second = r.me == 0 ? *b : *a;
    std::vector<Work> works;
    {
      Group outer(first);
      works.push_back(first.all_reduce(r.make(), Reduce::sum, r.stream));
      Group inner(second);
      works.push_back(second.all_reduce(r.make(), Reduce::sum, r.stream));
    }
    for (auto& work : works) work.wait(r.stream);
    r.sum(r.world);
  });
  EXPECT_EQ(text, "nothing failed");
}

TEST(Groups, WithNothingInsideLaunchNothing) {
  EXPECT_EQ(failure_of(2,
                       [](Rank& r) {
                         { Group group(r.world); }
                         r.sum(r.world);
                       }),
            "nothing failed");
}

// A name used again over the same ranks is told apart, so a second mesh in one world has its own sequences.
TEST(Names, UsedAgainGetANumber) {
  run_ranks(2, [](Transport& t) {
    const auto one = t.create("tp", {0, 1}), two = t.create("tp", {0, 1});
    EXPECT_EQ(one->name(), "tp");
    EXPECT_EQ(two->name(), "tp#2");
    one->barrier();
    two->barrier();
  });
}

}  // namespace
}  // namespace fivefold
