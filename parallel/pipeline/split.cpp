// Exact split over stages by dynamic programming, then small moves that even out ranks of several stages.
#include "parallel/pipeline/split.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

namespace fivefold {

namespace {

using Counts = std::vector<std::int64_t>;

constexpr double kNever = std::numeric_limits<double>::infinity();

// True where a is less by more than rounding.
bool clearly_less(double a, double b) { return a < b && (b == kNever || b - a > 1e-9 * std::abs(b)); }

class Splitter {
 public:
  Splitter(const LayerCosts& costs, const StageMap& map)
      : costs_(costs), map_(map), layers_(static_cast<std::int64_t>(costs.blocks.size())), before_(1, 0) {
    for (const auto cost : costs.blocks) before_.push_back(before_.back() + cost);
  }

  // The cheapest dearest stage first; then, no stage dearer than that, the least sum of squares.
  Counts best() const {
    const double dearest = table(burden(even())[2], [](double a, double b) { return std::max(a, b); }).value;
    auto counts = table(dearest * (1 + 1e-9), [](double a, double b) { return a * a + b; }).counts;
    if (map_.stages() > map_.ranks)
      while (improve(counts)) {
      }
    return counts;
  }

 private:
  struct Solution {
    double value = 0;
    Counts counts;
  };

  // Numbers of blocks that differ by one at most: a first bound.
  Counts even() const {
    Counts out;
    for (std::int64_t s = 0, stages = map_.stages(); s < stages; ++s)
      out.push_back(layers_ * (s + 1) / stages - layers_ * s / stages);
    return out;
  }

  // With a cost of its own a first or last stage may do without blocks.
  std::int64_t least_blocks(int stage) const {
    const int last = map_.stages() - 1;
    const bool alone =
        (stage == 0 && last > 0 && costs_.embedding > 0) || (stage == last && last > 0 && costs_.head > 0);
    return alone ? 0 : 1;
  }

  double stage_cost(int stage, std::int64_t first, std::int64_t end) const {
    return before_[end] - before_[first] + (stage == 0 ? costs_.embedding : 0) +
           (stage == map_.stages() - 1 ? costs_.head : 0);
  }

  // best[s][k]: of stages s and later over blocks k and later, combine(cost of s, best of the rest); kNever
  // where some stage would cost more than `limit`.
  template <class Combine>
  Solution table(double limit, Combine combine) const {
    const int stages = map_.stages();
    std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers_ + 1, kNever));
    std::vector<Counts> taken(stages, Counts(layers_ + 1, 0));
    best[stages][layers_] = 0;
    for (int s = stages; s-- > 0;)
      for (std::int64_t k = 0; k <= layers_; ++k)
        for (auto end = k + least_blocks(s); end <= layers_ && stage_cost(s, k, end) <= limit; ++end) {
          if (best[s + 1][end] == kNever) continue;
          const double value = combine(stage_cost(s, k, end), best[s + 1][end]);
          if (!clearly_less(value, best[s][k])) continue;
          best[s][k] = value;
          taken[s][k] = end - k;
        }
    Solution out{best[0][0], {}};
    FF_CHECK(out.value < kNever, "no split of ", layers_, " blocks over ", stages, " stages");
    std::int64_t k = 0;
    for (int s = 0; s < stages; ++s) {
      out.counts.push_back(taken[s][k]);
      k += taken[s][k];
    }
    return out;
  }

  // Dearest rank, unevenness of ranks, dearest stage, unevenness of stages: less is better, in this order.
  std::array<double, 4> burden(const Counts& counts) const {
    std::vector<double> ranks(map_.ranks, 0);
    std::array<double, 4> out{};
    std::int64_t first = 0;
    for (int s = 0; s < map_.stages(); ++s) {
      const double cost = stage_cost(s, first, first + counts[s]);
      first += counts[s];
      ranks[map_.rank_of[s]] += cost;
      out[2] = std::max(out[2], cost);
      out[3] += cost * cost;
    }
    for (const auto load : ranks) {
      out[0] = std::max(out[0], load);
      out[1] += load * load;
    }
    return out;
  }

  static bool better(const std::array<double, 4>& a, const std::array<double, 4>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (clearly_less(a[i], b[i])) return true;
      if (clearly_less(b[i], a[i])) return false;
    }
    return false;
  }

  // Makes the best move of one block from one stage to another, if one helps.
  bool improve(Counts& counts) const {
    auto best = counts;
    auto least = burden(counts);
    for (int from = 0; from < map_.stages(); ++from)
      for (int to = 0; to < map_.stages(); ++to) {
        if (from == to || counts[from] <= least_blocks(from)) continue;
        auto moved = counts;
        --moved[from];
        ++moved[to];
        if (const auto now = burden(moved); better(now, least)) {
          least = now;
          best = moved;
        }
      }
    return std::exchange(counts, best) != best;
  }

  const LayerCosts& costs_;
  const StageMap& map_;
  std::int64_t layers_;
  std::vector<double> before_;  // cost of the blocks before each
};

std::vector<StageLayers> stages_of(std::span<const std::int64_t> counts) {
  std::vector<StageLayers> out;
  std::int64_t first = 0;
  for (const auto blocks : counts) {
    out.push_back({.first = first, .end = first + blocks, .embeds = out.empty(), .ends = false});
    first += blocks;
  }
  out.back().ends = true;
  return out;
}

std::string layers_text(const StageLayers& stage) {
  std::string text = stage.embeds ? "embedding" : "";
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (stage.blocks() == 1) add(str("block ", stage.first));
  if (stage.blocks() > 1) add(str("blocks ", stage.first, '-', stage.end - 1));
  if (stage.ends) add("head");
  return text;
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

}  // namespace

std::vector<StageLayers> split_by_cost(const LayerCosts& costs, const StageMap& map) {
  const auto layers = static_cast<std::int64_t>(costs.blocks.size());
  for (const auto cost : costs.blocks) FF_CHECK(cost > 0, "a block costs ", cost);
  FF_CHECK(costs.embedding >= 0 && costs.head >= 0, "costs are no less than 0");
  if (layers < map.stages())
    throw UserError(str("every virtual stage holds at least one block, but there are ", map.stages(),
                        " stages and ", layers, " blocks; the most stages is ", layers));
  auto split = stages_of(Splitter(costs, map).best());
  check_split(split, layers, map);
  return split;
}

std::vector<StageLayers> split_as_given(std::span<const std::int64_t> blocks, std::int64_t layers,
                                        const StageMap& map, const std::vector<StageLayers>& nearest) {
  const auto instead = [&] { return str("; a split that works is ", blocks_text(nearest)); };
  const auto count = static_cast<int>(blocks.size());
  if (count != map.stages())
    throw UserError(str("parallel.stage_layers needs one number for each virtual stage, but it has ", count,
                        " for ", map.stages(), " stages", instead()));
  for (int stage = 0; stage < count; ++stage) {
    const bool may_be_empty = count > 1 && (stage == 0 || stage + 1 == count);
    if (blocks[stage] < (may_be_empty ? 0 : 1))
      throw UserError(str("parallel.stage_layers gives stage ", stage, " of ", count, " ", blocks[stage],
                          " blocks, but only the first and the last stage may do without", instead()));
  }
  const auto sum = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
  if (sum != layers)
    throw UserError(str("parallel.stage_layers must sum to the model's ", layers, " blocks, but it sums to ",
                        sum, instead()));
  auto split = stages_of(blocks);
  check_split(split, layers, map);
  return split;
}

void check_split(const std::vector<StageLayers>& split, std::int64_t layers, const StageMap& map) {
  FF_CHECK_EQ(static_cast<int>(split.size()), map.stages(), "one part a stage");
  std::int64_t next = 0;
  for (const auto& stage : split) {
    FF_CHECK(stage.first == next && stage.end >= stage.first, "blocks ", stage.first, " to ", stage.end,
             " after ", next);
    next = stage.end;
    FF_CHECK_EQ(stage.embeds, &stage == &split.front(), "the first stage embeds");
    FF_CHECK_EQ(stage.ends, &stage == &split.back(), "the last stage ends");
  }
  FF_CHECK_EQ(next, layers, "blocks in all stages");
}

std::string blocks_text(const std::vector<StageLayers>& split) {
  std::string text;
  for (const auto& stage : split) text += str(text.empty() ? "" : ", ", stage.blocks());
  return text;
}

std::string stage_map_text(const std::vector<StageLayers>& split, const StageMap& map) {
  const auto width = str(map.stages() - 1).size(), rank_width = str(map.ranks - 1).size();
  std::string text;
  for (int stage = 0; stage < map.stages(); ++stage)
    text += str("stage ", padded(str(stage), width), "  rank ", padded(str(map.rank_of[stage]), rank_width),
                "  ", layers_text(split[stage]), '\n');
  return text;
}

}  // namespace fivefold
