// Which blocks of the model each virtual stage holds.
#pragma once
#include <cstdint>
#include <span>

#include "parallel/pipeline/schedule.h"

namespace fivefold {

// Blocks [first, end), the embedding before them and the head after them where the stage is the first or
// last.
struct StageLayers {
  std::int64_t first = 0, end = 0;
  bool embeds = false, ends = false;
  std::int64_t blocks() const { return end - first; }
  bool operator==(const StageLayers&) const = default;
};

// Time of a micro-batch's forward and backward, in any unit.
struct LayerCosts {
  std::vector<double> blocks;  // one or more
  double embedding = 0, head = 0;
};

// Contiguous stages of at least one block, whose dearest rank is as cheap as possible and whose ranks, then
// stages, are as even as possible; among equals earlier stages, which hold more micro-batches, get fewer
// blocks. Exact over stages; with several stages a rank the last step, evening out the ranks, moves single
// blocks while that helps. A first or last stage may be the embedding or the head alone where that is
// cheaper. Throws UserError where there are fewer blocks than stages.
std::vector<StageLayers> split_by_cost(const LayerCosts& costs, const StageMap& map);

// The given numbers of blocks, stage by stage. Throws UserError, with `nearest` as the split to take instead,
// unless there is one number a stage, each at least 1 (0 for a first or last stage of several), and they sum
// to `layers`.
std::vector<StageLayers> split_as_given(std::span<const std::int64_t> blocks, std::int64_t layers,
                                        const StageMap& map, const std::vector<StageLayers>& nearest);

// Throws Error unless every block is in exactly one stage, in order, the first stage embeds and the last
// ends.
void check_split(const std::vector<StageLayers>& split, std::int64_t layers, const StageMap& map);

std::string blocks_text(const std::vector<StageLayers>& split);  // "4, 4, 3, 3"
// A line per stage: "stage 5  rank 1  blocks 10-11, head".
std::string stage_map_text(const std::vector<StageLayers>& split, const StageMap& map);

}  // namespace fivefold
