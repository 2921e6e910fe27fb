// log.trace: lanes of the timeline, and what the files of a pipelined run hold.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/json.h"
#include "launcher/rank_trace.h"
#include "launcher/train_command.h"
#include "tests/support/train_run.h"

namespace fivefold {
namespace {

TraceSpan span(int track, std::int64_t begin, std::int64_t end, const std::string& name = "x") {
  return {.track = track, .name = name, .begin_ns = begin, .end_ns = end};
}

TEST(TraceLanes, NestedSpansShareATrackAndOverlappingOnesDoNot) {
  TraceTimeline t{.tracks = {"host", "tp"},
                  .spans = {span(1, 10, 20), span(1, 15, 25), span(1, 12, 14), span(0, 0, 5), span(1, 20, 30),
                            span(1, 22, 24)}};
  const auto placed = in_lanes(t);
  EXPECT_EQ(placed.tracks, (std::vector<std::string>{"host", "tp", "tp (2)"}));
  std::map<std::pair<std::int64_t, std::int64_t>, int> track;
  for (const auto& s : placed.spans) track[{s.begin_ns, s.end_ns}] = s.track;
  EXPECT_EQ((track[{0, 5}]), 0);
  for (const auto& [inside, outside] : {std::pair{12, 14}, {10, 20}, {20, 30}, {22, 24}})
    EXPECT_EQ((track[{inside, outside}]), 1) << inside;
  EXPECT_EQ((track[{15, 25}]), 2) << "overlaps another without lying inside it";
}

TEST(TraceLanes, TheWindowFitsTheRun) {
  EXPECT_EQ(trace_window(100).first, 2);
  EXPECT_EQ(trace_window(100).steps, 10);
  EXPECT_EQ(trace_window(5).steps, 3);
  EXPECT_EQ(trace_window(2).first, 1);
  EXPECT_EQ(trace_window(1).first, 0);
  EXPECT_EQ(trace_window(1).steps, 1);
  EXPECT_EQ(trace_window(0).steps, 0);
}

struct TraceFile {
  std::map<int, std::string> tracks;  // by thread id
  std::string rank_name;
  std::vector<Json> spans;

  std::vector<Json> on(const std::string& track) const {
    std::vector<Json> out;
    for (const auto& s : spans)
      if (tracks.at(s["tid"]).starts_with(track)) out.push_back(s);
    return out;
  }
  // Values of an argument over the spans of a track that have it.
  std::set<int> arguments(const std::string& track, const std::string& key) const {
    std::set<int> out;
    for (const auto& s : on(track))
      if (s["args"].contains(key)) out.insert(s["args"][key].get<int>());
    return out;
  }
  std::set<std::string> names(const std::string& track) const {
    std::set<std::string> out;
    for (const auto& s : on(track)) out.insert(s["name"]);
    return out;
  }
};

TraceFile read_trace(const std::filesystem::path& file) {
  std::ifstream in(file);
  const auto all = Json::parse(in);
  TraceFile out;
  for (const auto& event : all["traceEvents"]) {
    if (event["ph"] == "X") out.spans.push_back(event);
    if (event["name"] == "thread_name") out.tracks[event["tid"]] = event["args"]["name"];
    if (event["name"] == "process_name") out.rank_name = event["args"]["name"];
  }
  return out;
}

// Spans of a thread id lie one after another or inside one another.
void expect_nesting(const TraceFile& trace) {
  std::map<int, std::vector<double>> open;  // ends, the innermost last
  for (const auto& s : trace.spans) {
    auto& ends = open[s["tid"]];
    const double begin = s["ts"], end = begin + s["dur"].get<double>();
    while (!ends.empty() && ends.back() <= begin + 1e-3) ends.pop_back();
    EXPECT_GE(s["dur"].get<double>(), 0);
    EXPECT_TRUE(ends.empty() || end <= ends.back() + 2e-3)
        << trace.tracks.at(s["tid"]) << ": " << s.dump() << " beyond " << ends.back();
    ends.push_back(end);
  }
}

std::vector<TraceFile> traces_of(const test::TrainFolder& folder, const std::vector<std::string>& more,
                                 int ranks) {
  auto arguments = folder.arguments("traced", more);
  EXPECT_EQ(train_command(arguments), 0);
  std::vector<TraceFile> traces;
  for (int r = 0; r < ranks; ++r)
    traces.push_back(read_trace(folder.run("traced") / "trace" / str("rank_0000", r, ".json")));
  return traces;
}

TEST(RankTraces, ShowStagesMicroBatchesAndTransfersOfAPipeline) {
  const test::TrainFolder folder;
  const auto traces =
      traces_of(folder,
                {"--ranks=4", "--parallel.pp=2", "--parallel.tp=2", "--train.global_batch=6",
                 "--train.micro_batch=2", "--run.steps=5", "--model.layers=2", "--log.trace=true"},
                4);
  for (std::size_t r = 0; r < traces.size(); ++r) {
    const auto& trace = traces[r];
    const int stage = r / 2;
    EXPECT_EQ(trace.rank_name, str("rank ", r, " (pp ", stage, ", tp ", r % 2, ")"));
    expect_nesting(trace);
    for (const char* track : {"host", "compute stream"}) {
      EXPECT_EQ(trace.arguments(track, "stage"), std::set<int>{stage}) << track;
      EXPECT_EQ(trace.arguments(track, "micro_batch"), (std::set<int>{0, 1, 2})) << track;
    }
    const auto host = trace.names("host"), ops = trace.names("compute stream");
    for (const char* name : {"step 2", "step 4", "data/next_batch", "train/step", "train/update", "forward",
                             "backward", "checkpoint/save"})
      EXPECT_TRUE(host.contains(name)) << name;
    EXPECT_FALSE(host.contains("step 1")) << "warm-up";
    for (const char* name : {"gemm", "attention_forward", "norm_backward", "adamw"})
      EXPECT_TRUE(ops.contains(name)) << name;
    EXPECT_TRUE(trace.names("pp/stages").contains(stage == 0 ? "recv" : "send"));
    EXPECT_EQ(trace.arguments("pp/stages", "micro_batch").count(2), 1u);
    EXPECT_TRUE(trace.names("tp/activations").contains("all_gather"));
  }
  // What one stage sends, the other receives at that time.
  EXPECT_EQ(traces[0].on("pp/stages").size(), traces[2].on("pp/stages").size());
}

TEST(RankTraces, AnUntracedRunHasNone) {
  const test::TrainFolder folder;
  EXPECT_EQ(train_command(folder.arguments("plain", {"--run.steps=3"})), 0);
  EXPECT_FALSE(std::filesystem::exists(folder.run("plain") / "trace"));
}

}  // namespace
}  // namespace fivefold
