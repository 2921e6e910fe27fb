// Compares two checkpoints tensor by tensor, whatever the cut of each.
#pragma once
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace fivefold {

struct TensorDiff {
  std::string name;
  std::string form;            // how dtype or shape differ; the figures below are 0 then
  std::int64_t differing = 0;  // elements whose bits differ
  std::int64_t first = -1;     // row-major index of the first of them
  double max_abs = 0;          // largest absolute difference; infinite where one side alone is not finite
};

struct CheckpointDiff {
  std::vector<std::string> only_in_first, only_in_second;
  std::vector<TensorDiff> tensors;  // those that differ, in order of name
  std::vector<std::string> state;   // sentences on step, samples, seed, configuration: for information
  std::int64_t compared = 0;        // tensors that both have
  bool equal() const { return only_in_first.empty() && only_in_second.empty() && tensors.empty(); }
};

// Both are read and verified where their hashes differ. Memory: a piece of each.
CheckpointDiff diff_checkpoints(FileSystem& fs, const Path& first, const Path& second);

}  // namespace fivefold
