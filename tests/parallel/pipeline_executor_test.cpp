// The executor over thread ranks: every schedule gives what one rank gives, to the bit, in one order of
// launches.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "parallel/comm/launch_order.h"
#include "parallel/comm/thread_world.h"
#include "parallel/pipeline/passes.h"
#include "tests/parallel/pipeline_toy.h"

namespace fivefold {
namespace {

constexpr ThreadOptions kOptions{.patience = std::chrono::seconds(60), .keep_all = true};

const std::vector<DeviceMesh::Wanted> kGroups{{{Axis::pp}, "activations"}, {{Axis::shard}, "weights"}};

// What one pp rank of one data part works with.
struct Place {
  const Run& run;
  Communicator& pp;
  Communicator& data;
};

// Runs `body` on pp x shard thread ranks, the mesh built, and returns all their records.
std::vector<std::vector<LedgerRecord>> on_ranks(int pp, int shard,
                                                const std::function<void(const Place&)>& body) {
  std::vector<HostSlot> slots;
  for (int r = 0; r < pp * shard; ++r) slots.push_back({"here", r});
  const auto ledgers = run_ranks(
      pp * shard,
      [&](Transport& transport) {
        const auto backend = make_cpu_backend();
        const auto memory = make_cpu_memory({.poison = true});
        CpuStream stream;
        const DeviceMesh mesh({.pp = pp, .shard = shard}, transport, slots, kGroups);
        const Run run{*backend, stream, *memory, mesh, DType::f64};
        body({run, mesh.over({Axis::pp}, "activations"), mesh.over({Axis::shard}, "weights")});
      },
      kOptions);
  std::vector<std::vector<LedgerRecord>> records;
  for (const auto& ledger : ledgers) records.push_back(ledger->records());
  return records;
}

template <class Stage = ToyStage>
std::vector<std::unique_ptr<Stage>> make_stages(const Place& place, const Schedule& schedule, ToyPlan plan) {
  plan.stages = schedule.map.stages();
  plan.data = place.data.rank();
  std::vector<std::unique_ptr<Stage>> out;
  for (const int s : schedule.map.stages_of(place.pp.rank()))
    out.push_back(std::make_unique<Stage>(place.run, place.data, plan, s));
  return out;
}

template <class Stage>
void run_stages(const Place& place, const Schedule& schedule,
                const std::vector<std::unique_ptr<Stage>>& stages, const ToyPlan& plan) {
  std::vector<PipelineStage*> pointers;
  for (const auto& stage : stages) pointers.push_back(stage.get());
  run_pipeline(place.run, place.pp, schedule, pointers, plan.shapes());
}

using Results = std::map<std::pair<int, int>, ToyResult>;  // by data part and stage

struct Outcome {
  Results results;
  std::vector<std::vector<LedgerRecord>> records;
};

Outcome run_toy(const Schedule& schedule, ToyPlan plan, int shard) {
  std::mutex mutex;
  Outcome out;
  out.records = on_ranks(schedule.map.ranks, shard, [&](const Place& place) {
    const auto stages = make_stages(place, schedule, plan);
    run_stages(place, schedule, stages, plan);
    const auto own = schedule.map.stages_of(place.pp.rank());
    const std::scoped_lock lock(mutex);
    for (std::size_t i = 0; i < own.size(); ++i)
      out.results[{place.data.rank(), own[i]}] = stages[i]->result();
  });
  return out;
}

// Expects what plain loops say of every stage, gradients and their order included.
void expect_exact(const Results& results, ToyPlan plan, int shard, bool tied, const std::string& what) {
  std::map<int, double> reduced;
  for (int data = 0; data < shard; ++data) {
    plan.data = data;
    for (const auto& [stage, result] : toy_reference(plan)) reduced[stage] += result.gradient;
  }
  for (int data = 0; data < shard; ++data) {
    plan.data = data;
    auto wanted = toy_reference(plan);
    const double both = wanted[0].gradient + (plan.stages > 1 ? wanted[plan.stages - 1].gradient : 0);
    for (auto& [stage, want] : wanted) {
      const bool end = stage == 0 || stage + 1 == plan.stages;
      want.tied = tied && end ? both : want.gradient;
      want.reduced = reduced[stage];
      const auto at = results.find({data, stage});
      ASSERT_NE(at, results.end()) << what << " stage " << stage;
      auto got = at->second;
      got.most_held = 0;
      EXPECT_TRUE(got == want) << what << ", data " << data << ", stage " << stage << ": gradient "
                               << got.gradient << " for " << want.gradient << ", loss " << got.loss << " for "
                               << want.loss << ", reduced " << got.reduced << " for " << want.reduced
                               << ", tied " << got.tied << " for " << want.tied << ", side "
                               << got.forward_side << '/' << got.backward_side << " for " << want.forward_side
                               << '/' << want.backward_side << ", order "
                               << (got.order == want.order ? "same" : "other");
    }
  }
}

struct Layout {
  ScheduleKind kind;
  int ranks, chunks;
};

// Eight stages on one rank, and on 2, 4 and 8 under every schedule; B34: also fewer micro-batches than
// stages; B33: lengths change within the step. Equal to plain loops, so equal to each other and to no
// pipeline, to the bit.
TEST(PipelineExecutor, EverySchedulesGivesWhatOneRankGives) {
  for (const auto& [kind, ranks, chunks] : {Layout{ScheduleKind::interleaved, 1, 8},
                                            {ScheduleKind::interleaved, 2, 4},
                                            {ScheduleKind::interleaved, 4, 2},
                                            {ScheduleKind::zb_v, 4, 2},
                                            {ScheduleKind::gpipe, 8, 1},
                                            {ScheduleKind::one_f_one_b, 8, 1},
                                            {ScheduleKind::zb_h1, 8, 1}})
    for (const int m : {1, 2, 3, 5, 8}) {
      ScheduleSpec spec{.kind = kind, .ranks = ranks, .chunks = chunks, .micro_batches = m};
      spec.reductions = {.each_micro_batch = m % 2 == 0, .tied = true};
      const ToyPlan plan{.stages = 8, .micro_batches = m, .side = m != 3};
      const auto outcome = run_toy(training_schedule(spec), plan, 1);
      expect_exact(outcome.results, plan, 1, true, str(kind, " p=", ranks, " v=", chunks, " m=", m));
    }
}

// Two data ranks beside four pipeline ranks, with collectives inside every action: one total order of all
// launches exists.
TEST(PipelineExecutor, OneOrderOfAllLaunches) {
  for (const auto& [kind, ranks, chunks] : {Layout{ScheduleKind::gpipe, 4, 1},
                                            {ScheduleKind::one_f_one_b, 4, 1},
                                            {ScheduleKind::interleaved, 4, 2},
                                            {ScheduleKind::zb_h1, 4, 1},
                                            {ScheduleKind::zb_v, 4, 2}})
    for (const bool each : {false, true}) {
      const ScheduleSpec spec{
          .kind = kind, .ranks = ranks, .chunks = chunks, .micro_batches = 6, .reductions = {each, true}};
      const ToyPlan plan{.stages = ranks * chunks, .micro_batches = 6};
      const auto outcome = run_toy(training_schedule(spec), plan, 2);
      expect_exact(outcome.results, plan, 2, true, str(kind));
      EXPECT_NO_THROW(check_launch_order(outcome.records)) << kind;
    }
}

// What stages hold is what the simulator says.
TEST(PipelineExecutor, HoldsWhatTheSimulatorSays) {
  for (const auto& [kind, ranks] :
       {std::pair{ScheduleKind::gpipe, 3}, {ScheduleKind::one_f_one_b, 3}, {ScheduleKind::zb_h1, 3}}) {
    const ScheduleSpec spec{.kind = kind, .ranks = ranks, .micro_batches = 7};
    const ToyPlan plan{.stages = ranks, .micro_batches = 7};
    const auto results = run_toy(training_schedule(spec), plan, 1).results;
    const auto peaks = simulate(make_schedule(kind, ranks, 1, 7)).peaks;
    for (int s = 0; s < ranks; ++s)
      EXPECT_EQ(results.at({0, s}).most_held, peaks[s].together) << kind << ' ' << s;
  }
}

TEST(PipelineExecutor, EvaluationRunsForwardsAlone) {
  const ScheduleSpec spec{.kind = ScheduleKind::zb_v, .ranks = 2, .chunks = 2, .micro_batches = 5};
  const ToyPlan plan{.stages = 4, .micro_batches = 5, .train = false};
  const auto results = run_toy(evaluation_schedule(spec), plan, 1).results;
  EXPECT_EQ(results.at({0, 3}).loss, toy_reference(plan)[3].loss);
  EXPECT_EQ(results.at({0, 0}).gradient, 0);
}

// Two steps with one list: nothing is left over from the first.
TEST(PipelineExecutor, StepAfterStep) {
  const auto schedule = training_schedule({.kind = ScheduleKind::zb_h1, .ranks = 2, .micro_batches = 4});
  const ToyPlan plan{.stages = 2, .micro_batches = 4};
  on_ranks(2, 1, [&](const Place& place) {
    const auto stages = make_stages(place, schedule, plan);
    for (int step = 0; step < 2; ++step) run_stages(place, schedule, stages, plan);
    const auto want = toy_reference(plan)[place.pp.rank()];
    FF_CHECK_EQ(stages[0]->result().gradient, 2 * want.gradient);
  });
}

// An output is freed when it is sent: without, the first rank of GPipe would hold all of them.
TEST(PipelineExecutor, SentOutputsAreFreed) {
  const int m = 16;
  const auto schedule = training_schedule({.kind = ScheduleKind::gpipe, .ranks = 2, .micro_batches = m});
  const ToyPlan plan{.stages = 2, .micro_batches = m};
  on_ranks(2, 1, [&](const Place& place) {
    const auto stages = make_stages(place, schedule, plan);
    run_stages(place, schedule, stages, plan);
    if (place.pp.rank() > 0) return;
    const auto peak = place.run.memory.report().peak[static_cast<std::size_t>(Tag::activations)];
    constexpr std::int64_t kOutput = 4 * 3 * 8, kScalars = 3 * 64;
    FF_CHECK(peak <= 4 * kOutput + kScalars, "activations ", peak);
  });
}

// Records know what they belong to; a send and a receive that pass each other are one launch.
TEST(PipelineExecutor, LedgerKnowsStageAndMicroBatch) {
  const auto schedule = training_schedule({.ranks = 2, .micro_batches = 4});
  const auto records = run_toy(schedule, {.stages = 2, .micro_batches = 4}, 1).records;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<Action> wanted, seen;
    std::map<std::int64_t, int> of_launch;
    for (const auto& action : schedule.lists[rank])
      if (is_transfer(action.act)) wanted.push_back({action.act, action.stage, action.micro_batch});
    for (const auto& r : records[rank]) {
      if (r.op != CommOp::send && r.op != CommOp::recv) continue;
      const auto act = r.op == CommOp::send ? (rank == 0 ? Act::send_activation : Act::send_gradient)
                                            : (rank == 0 ? Act::receive_gradient : Act::receive_activation);
      seen.push_back({act, r.stage, r.micro_batch});
      ++of_launch[r.launch];
    }
    EXPECT_EQ(seen, wanted);
    EXPECT_LT(of_launch.size(), seen.size());
  }
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

struct FailingStage : ToyStage {
  using ToyStage::ToyStage;
  Carried forward(int micro_batch, Carried input) override {
    if (stage_ == 1 && micro_batch == 2) throw std::runtime_error("the disk is full");
    return ToyStage::forward(micro_batch, std::move(input));
  }
};

TEST(PipelineExecutor, ErrorShowsTheListAndWhereItStopped) {
  const auto schedule = training_schedule({.ranks = 2, .micro_batches = 3});
  const ToyPlan plan{.stages = 2, .micro_batches = 3};
  const auto said = failure_of([&] {
    on_ranks(2, 1, [&](const Place& place) {
      run_stages(place, schedule, make_stages<FailingStage>(place, schedule, plan), plan);
    });
  });
  EXPECT_NE(said.find("pp rank 1 stopped at action 9 of 13: (3 before) 1B0 1SG0 1F1 1B1 1RA2 1SG1 [1F2] 1B2 "
                      "1SG2 1R: the disk is full"),
            said.npos)
      << said;
}

// A list whose transfers stand in another order than the peer's ends with both lists' positions, not in a
// hang.
TEST(PipelineExecutor, TamperedListEndsWithAReport) {
  auto schedule = training_schedule({.ranks = 2, .micro_batches = 3});
  auto& list = schedule.lists[0];
  const auto forward = std::find(list.begin(), list.end(), Action{Act::forward, 0, 1});
  const auto receive = std::find(list.begin(), list.end(), Action{Act::receive_gradient, 0, 0});
  std::rotate(forward, receive, receive + 1);
  const ToyPlan plan{.stages = 2, .micro_batches = 3};
  std::mutex mutex;
  std::vector<std::string> said(2);
  failure_of([&] {
    on_ranks(2, 1, [&](const Place& place) {
      try {
        run_stages(place, schedule, make_stages(place, schedule, plan), plan);
      } catch (const Error& error) {
        const std::scoped_lock lock(mutex);
        said[place.pp.rank()] = error.what();
        throw;
      }
    });
  });
  EXPECT_NE(said[0].find("pp rank 0 stopped at action "), said[0].npos) << said[0];
  EXPECT_NE(said[1].find("pp rank 1 stopped at action "), said[1].npos) << said[1];
}

struct WrongShapeStage : ToyStage {
  using ToyStage::ToyStage;
  Carried forward(int, Carried) override { return filled({1, 3}, 0); }
};

TEST(PipelineExecutor, ShapesAreChecked) {
  const auto schedule =
      training_schedule({.kind = ScheduleKind::interleaved, .ranks = 1, .chunks = 2, .micro_batches = 1});
  const ToyPlan plan{.stages = 2, .micro_batches = 1};
  const auto said = failure_of([&] {
    on_ranks(1, 1, [&](const Place& place) {
      run_stages(place, schedule, make_stages<WrongShapeStage>(place, schedule, plan), plan);
    });
  });
  EXPECT_NE(said.find("[1, 3] vs [2, 3] - rows of micro-batch 0"), said.npos) << said;
}

}  // namespace
}  // namespace fivefold
