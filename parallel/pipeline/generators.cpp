// Every generator writes the list of one rank as a closed pattern in (rank, ranks, micro-batches). A pattern
// that needs more micro-batches than there are is written for as many as it needs, and the actions of those
// that do not exist are left out: what remains still finishes, since actions depend only on others of the
// same micro-batch.
#include "parallel/pipeline/generators.h"

#include <algorithm>

namespace fivefold {

namespace {

// Appends to one rank's list; each (act, stage) takes the micro-batches 0, 1, 2, ... in turn.
class ListWriter {
 public:
  ListWriter(Schedule& schedule, int rank)
      : list_(schedule.lists[rank]),
        micro_batches_(schedule.micro_batches),
        next_(4 * schedule.map.stages(), 0) {}

  int count(Act act, int stage) const { return next_[slot(act, stage)]; }
  void put(Act act, int stage) {
    const int m = next_[slot(act, stage)]++;
    if (m < micro_batches_) list_.push_back({act, stage, m});
  }

 private:
  std::size_t slot(Act act, int stage) const {
    return std::size_t(4) * stage + static_cast<std::size_t>(act);
  }

  ActionList& list_;
  int micro_batches_;
  std::vector<int> next_;
};

Schedule empty_schedule(StageMap map, int micro_batches) {
  Schedule out{.map = std::move(map), .micro_batches = micro_batches, .lists = {}};
  out.lists.resize(out.map.ranks);
  return out;
}

// Forwards go through the chunks depth first: a group of micro-batches through chunk 0, then through chunk 1,
// ...; then the next group; backwards likewise with the chunks reversed. While every group has at least
// `ranks` members, a group's first is back from the last rank when the next chunk wants it, so nobody waits
// and the closed form holds, also where the groups are not all of one size. One chunk needs no groups. Places
// of smaller groups that no micro-batch takes are left out.
class Units {
 public:
  Units(int ranks, int chunks, int micro_batches)
      : ranks_(ranks),
        chunks_(chunks),
        groups_(chunks == 1 ? 1 : std::max(micro_batches / ranks, 1)),
        width_(chunks == 1 ? micro_batches : std::max((micro_batches + groups_ - 1) / groups_, ranks)),
        micro_batches_(micro_batches) {}

  int count() const { return groups_ * width_ * chunks_; }
  int width() const { return width_; }
  void put(ListWriter& out, Act act, int rank, int unit) const {
    const int group = unit / (width_ * chunks_), place = unit % width_;
    const int members = micro_batches_ / groups_ + (group < micro_batches_ % groups_ ? 1 : 0);
    if (place >= members) return;
    const int turn = unit / width_ % chunks_;
    out.put(act, (act == Act::forward ? turn : chunks_ - 1 - turn) * ranks_ + rank);
  }

 private:
  int ranks_, chunks_, groups_, width_, micro_batches_;
};

// GPipe and the 1F1B schedules differ only in how many forwards a rank runs before its first backward.
Schedule alternating(ScheduleKind kind, int ranks, int chunks, int micro_batches) {
  auto out = empty_schedule(loop_map(ranks, chunks), micro_batches);
  const Units units(ranks, chunks, micro_batches);
  for (int rank = 0; rank < ranks; ++rank) {
    const int below = ranks - 1 - rank;
    const int ahead = kind == ScheduleKind::gpipe ? units.count()
                      : chunks == 1               ? below
                                                  : 2 * below + (chunks - 1) * units.width();
    const int warmup = std::min(ahead, units.count());
    ListWriter list(out, rank);
    for (int k = 0; k < warmup; ++k) units.put(list, Act::forward, rank, k);
    for (int k = warmup; k < units.count(); ++k) {
      units.put(list, Act::forward, rank, k);
      units.put(list, Act::backward, rank, k - warmup);
    }
    for (int k = units.count() - warmup; k < units.count(); ++k) units.put(list, Act::backward, rank, k);
  }
  return out;
}

// 1F1B whose weight halves come `rank` micro-batches late. A gradient reaches rank 0 sooner by what the ranks
// below put off, and all ranks hold the same `ranks` micro-batches that rank 0 of 1F1B holds.
Schedule zero_bubble_h1(int ranks, int micro_batches) {
  auto out = empty_schedule(loop_map(ranks, 1), micro_batches);
  for (int rank = 0; rank < ranks; ++rank) {
    ListWriter list(out, rank);
    for (int k = 0; k < ranks - rank; ++k) list.put(Act::forward, rank);
    for (int k = 0; k < micro_batches; ++k) {
      list.put(Act::backward_input, rank);
      if (k >= rank) list.put(Act::backward_weight, rank);
      list.put(Act::forward, rank);
    }
    while (list.count(Act::backward_weight, rank) < micro_batches) list.put(Act::backward_weight, rank);
  }
  return out;
}

// One rank of ZB-V: chunk 0 goes down the ranks, chunk 1 comes up again, so a rank near the bottom has little
// of chunk 0 to do before chunk 1 arrives and a rank near the top much. It fills up with forwards until 2 *
// ranks chunks are held, then for every micro-batch it begins it finishes one.
class VeeRank {
 public:
  VeeRank(Schedule& schedule, int rank, int planned)
      : list_(schedule, rank), ranks_(schedule.map.ranks), rank_(rank), planned_(planned) {}

  void write() {
    const int below = ranks_ - rank_;
    repeat(2 * below - 1, "F0");
    repeat(rank_, "F1 F0");
    repeat(below, "F1 I1 W1");
    while (count(Act::forward, 1) < planned_) {
      if (count(Act::forward, 0) < planned_) run("F0");
      run("I0 W0 F1 I1 W1");
    }
    repeat(rank_, "I0 I1");
    repeat(below, "I0 W0");
    while (count(Act::backward_weight, 1) < planned_) run("W1");
    while (count(Act::backward_weight, 0) < planned_) run("W0");
  }

 private:
  int stage(int chunk) const { return chunk == 0 ? rank_ : 2 * ranks_ - 1 - rank_; }
  int count(Act act, int chunk) const { return list_.count(act, stage(chunk)); }
  void repeat(int times, std::string_view steps) {
    for (int k = 0; k < times; ++k) run(steps);
  }
  // Steps are an act's letter and a chunk's digit, a blank between.
  void run(std::string_view steps) {
    for (std::size_t i = 0; i < steps.size(); i += 3) {
      const Act act = steps[i] == 'F'   ? Act::forward
                      : steps[i] == 'I' ? Act::backward_input
                                        : Act::backward_weight;
      list_.put(act, stage(steps[i + 1] - '0'));
    }
  }

  ListWriter list_;
  int ranks_, rank_, planned_;
};

Schedule zero_bubble_v(int ranks, int micro_batches) {
  auto out = empty_schedule(vee_map(ranks), micro_batches);
  const int planned = std::max(micro_batches, 2 * ranks - 1);
  for (int rank = 0; rank < ranks; ++rank) VeeRank(out, rank, planned).write();
  return out;
}

void check_chunks(ScheduleKind kind, int chunks) {
  if (kind == ScheduleKind::interleaved) return;
  const int only = kind == ScheduleKind::zb_v ? 2 : 1;
  if (chunks != only)
    throw UserError(str("schedule ", kind, " has ", only, " virtual stage", only == 1 ? "" : "s",
                        " a pipeline rank, but chunks = ", chunks, "; the nearest chunks is ", only));
}

}  // namespace

Schedule make_schedule(ScheduleKind kind, int ranks, int chunks, int micro_batches) {
  FF_CHECK(ranks > 0 && chunks > 0 && micro_batches > 0, ranks, " ranks, ", chunks, " chunks, ",
           micro_batches, " micro-batches");
  check_chunks(kind, chunks);
  if (kind == ScheduleKind::zb_h1) return zero_bubble_h1(ranks, micro_batches);
  if (kind == ScheduleKind::zb_v) return zero_bubble_v(ranks, micro_batches);
  return alternating(kind, ranks, chunks, micro_batches);
}

}  // namespace fivefold
