// Parameters that are gathered and reduced together: one transformer block, the embedding, the head.
//   sharded --unshard()--> gathering --ready()--> whole --reshard()--> sharded
// ZeRO 1, 2 and 3 are one machine with different policies: optimizer state is always cut over the storage axes, 2 cuts the
// gradient accumulators too, 3 the weights. (Rajbhandari et al., "ZeRO", SC20.)
#pragma once
#include <vector>

#include "parallel/mesh/param.h"
#include "parallel/run.h"

namespace fivefold {

struct ZeroPolicy {
  int stage = 1;
};

// What one rank keeps of a parameter between steps. Rows are those of the storage box; buffers hold `padded_rows`.
struct ShardedParam {
  Param* param = nullptr;
  std::int64_t padded_rows = 0;   // rows each storage rank transfers: ceil(compute rows / storage ranks)
  Tensor shard;                   // storage box, compute dtype
  Tensor master;                  // storage box, accumulate dtype; shard itself where the dtypes are equal
  Tensor gradient;                // storage box, accumulate dtype; complete after finish_grads
  Tensor m, v;                    // storage box, accumulate dtype (Adam)
  bool owned = false;             // this rank counts it in norms and writes it: the lowest holder of a non-empty box
};

class FsdpUnit {
 public:
  // Groups of parameters that lie adjacent in the unit's buffers, in order (q, k, v; gate, up), so that each is one GEMM.
  using Groups = std::vector<std::vector<Param*>>;
  FsdpUnit(const Run& run, std::string name, const Groups& groups, ZeroPolicy policy);

  // Starts to collect the weights from their shards. No-op unless sharded.
  void unshard(const Run& run);
  // Work queued after this may read Param::weight.
  void ready(const Run& run);
  // The weights are not needed for a while (ZeRO-3 frees them).
  void reshard(const Run& run);
  // The shards changed (optimizer, load): the next unshard collects them again.
  void shards_changed();
  // Gradients start at zero.
  void zero_grads(const Run& run);
  // Starts to sum Param::gradient over the storage and replica ranks into ShardedParam::gradient.
  void reduce_grads(const Run& run);
  // Work queued after this may read ShardedParam::gradient.
  void finish_grads(const Run& run);

  std::vector<ShardedParam>& params() { return params_; }
  const std::string& name() const { return name_; }

 private:
  enum class State { sharded, gathering, whole };
  void allocate(const Run& run, const Groups& groups);
  void add_param(const Run& run, Param& param, std::int64_t first);
  Communicator& storage(const Run& run, const Param& param) const;
  void start_gather(const Run& run, ShardedParam& p);
  void start_reduce(const Run& run, ShardedParam& p);

  std::string name_;
  ZeroPolicy policy_;
  std::vector<ShardedParam> params_;
  Tensor weights_, gradients_;     // flat; Param::weight and ::gradient are views
  State state_ = State::sharded;
  std::vector<Work> pending_;
  std::vector<std::pair<Tensor, Tensor>> staged_;   // (weight, gathered padded rows) to copy once they are there
};

}  // namespace fivefold
