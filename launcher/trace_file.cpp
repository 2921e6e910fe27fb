// Lanes, and the text of events. Complete events ("X") nest by their times on one thread id, so a lane is a
// thread id.
#include "launcher/trace_file.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/error.h"
#include "core/json.h"

namespace fivefold {

namespace {

// One lane: the ends of the spans that are open at the time looked at, the innermost last.
struct Lane {
  int track = 0;
  std::vector<std::int64_t> open;

  bool takes(const TraceSpan& span) {
    while (!open.empty() && open.back() <= span.begin_ns) open.pop_back();
    return open.empty() || span.end_ns <= open.back();
  }
};

std::string quoted(const std::string& text) { return Json(text).dump(); }

std::string arguments(const TraceSpan& span) {
  std::string out;
  const auto add = [&](std::string_view key, const auto& value) {
    out += str(out.empty() ? "" : ",", '"', key, "\":", value);
  };
  if (span.stage >= 0) add("stage", span.stage);
  if (span.micro_batch >= 0) add("micro_batch", span.micro_batch);
  if (span.bytes >= 0) add("bytes", span.bytes);
  if (!span.detail.empty()) add("detail", quoted(span.detail));
  return out;
}

void write_name(std::ostream& out, std::string_view kind, int rank, std::size_t track,
                const std::string& name) {
  out << R"({"ph":"M","pid":)" << rank << R"(,"tid":)" << track << R"(,"name":")" << kind
      << R"(","args":{"name":)" << quoted(name) << "}},\n";
}

void write_span(std::ostream& out, int rank, const TraceSpan& span) {
  char times[80];
  std::snprintf(times, sizeof times, R"("ts":%.3f,"dur":%.3f)", static_cast<double>(span.begin_ns) * 1e-3,
                static_cast<double>(span.end_ns - span.begin_ns) * 1e-3);
  out << R"({"ph":"X","pid":)" << rank << R"(,"tid":)" << span.track << ',' << times << R"(,"name":)"
      << quoted(span.name) << R"(,"args":{)" << arguments(span) << "}}";
}

// The lane that takes the span, a further track of the same name where none does.
int lane_for(const TraceSpan& span, std::vector<Lane>& lanes, std::vector<std::string>& tracks) {
  for (auto& lane : lanes)
    if (lane.takes(span)) {
      lane.open.push_back(span.end_ns);
      return lane.track;
    }
  int track = span.track;
  if (!lanes.empty()) {
    track = static_cast<int>(tracks.size());
    tracks.push_back(str(tracks[static_cast<std::size_t>(span.track)], " (", lanes.size() + 1, ')'));
  }
  lanes.push_back({track, {span.end_ns}});
  return track;
}

}  // namespace

TraceTimeline in_lanes(TraceTimeline timeline) {
  auto& spans = timeline.spans;
  std::stable_sort(spans.begin(), spans.end(), [](const TraceSpan& a, const TraceSpan& b) {
    return std::tuple(a.track, a.begin_ns, -a.end_ns) < std::tuple(b.track, b.begin_ns, -b.end_ns);
  });
  std::map<int, std::vector<Lane>> lanes;  // by the track they belong to
  for (auto& span : spans) span.track = lane_for(span, lanes[span.track], timeline.tracks);
  return timeline;
}

void write_trace(std::ostream& out, const TraceTimeline& given) {
  const auto timeline = in_lanes(given);
  out << "{\"traceEvents\":[\n";
  write_name(out, "process_name", timeline.rank, 0, timeline.rank_name);
  for (std::size_t t = 0; t < timeline.tracks.size(); ++t)
    write_name(out, "thread_name", timeline.rank, t, timeline.tracks[t]);
  for (const auto& span : timeline.spans) {
    write_span(out, timeline.rank, span);
    out << ",\n";
  }
  // The format wants no comma behind the last event; this one says nothing else.
  out << R"({"ph":"M","pid":)" << timeline.rank << R"(,"name":"process_sort_index","args":{"sort_index":)"
      << timeline.rank << "}}\n]}\n";
}

}  // namespace fivefold
