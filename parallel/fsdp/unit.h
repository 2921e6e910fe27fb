// Parameters that are gathered and reduced together: one transformer block, the embedding, the head.
//   weights:   sharded --unshard()--> gathering --ready()--> whole --reshard()--> sharded
//   gradients: begin_backward() ... backward_weight adds ... reduce_grads() --> finish_grads()
// ZeRO 1, 2 and 3 are one machine with different policies: optimizer state is always cut over the storage
// axes, 2 cuts the gradient accumulators too, 3 the weights. (Rajbhandari et al., "ZeRO", SC20.)
//
// Bytes a rank keeps between steps, for N elements of compute boxes, n storage ranks, w bytes a weight and a
// bytes an accumulator (divisible sizes): weights N w (ZeRO 1, 2) or N w / n (3); gradients N a (1) or N a /
// n (2, 3); moments 2 N a / n; masters N a / n where they are apart; other forms of storage.h less. A
// reduction a step: gradients that are whole while they accumulate.
#pragma once
#include <array>
#include <vector>

#include "parallel/fsdp/storage.h"
#include "parallel/mesh/param.h"
#include "parallel/run.h"

namespace fivefold {

struct ZeroPolicy {
  int stage = 1;
  bool reduce_each_micro_batch = false;  // parallel.reduce = micro_batch
  bool reshard_after_use = true;         // ZeRO-3: false keeps weights whole until the optimizer changes them
  bool trains = true;  // false: weights only, nothing is kept for gradients and moments (generation)
  StateStorage storage;
};

// What one rank keeps of a parameter between steps. Rows are those of the storage box; buffers hold
// `padded_rows`.
struct ShardedParam {
  Param* param = nullptr;
  std::int64_t padded_rows = 0;  // rows each storage rank transfers: ceil(compute rows / storage ranks)
  Tensor shard;                  // storage box, compute dtype
  Tensor master;  // storage box, accumulate dtype; shard itself where the dtypes are equal; none in the other
                  // forms
  Tensor remainder;    // storage box, i16, in that form
  Tensor gradient;     // storage box; complete after finish_grads
  Tensor m, v;         // storage box (Adam)
  bool owned = false;  // this rank counts it in norms and writes it: the lowest holder of a non-empty box

  // The weight in the words of the optimizer's ops, flat.
  StoredMaster stored() const;
  // A member in the accumulate dtype: itself where it is stored so, else a copy. `master` is there in every
  // form.
  Tensor in_full(const Run& run, Tensor ShardedParam::*member) const;
  // host (accumulate dtype, storage box) = the master, and the master and all that follows from it = host.
  // Some device memory at a time; complete on return.
  void read_master(const Run& run, const Tensor& host) const;
  void write_master(const Run& run, const Tensor& host) const;
};

// host = the elements of `stored`, a tensor of state, in another dtype, and back. Some device memory at a
// time; complete on return.
void read_as(const Run& run, const Tensor& stored, const Tensor& host);
void write_as(const Run& run, const Tensor& host, const Tensor& stored);

class FsdpUnit {
 public:
  // Groups of parameters that lie adjacent in the unit's buffers, in order (q, k, v; gate, up), so that each
  // is one GEMM.
  using Groups = std::vector<std::vector<Param*>>;
  FsdpUnit(const Run& run, std::string name, const Groups& groups, ZeroPolicy policy);

  // Starts to collect the weights from their shards. No-op unless sharded.
  void unshard(const Run& run);
  // Work queued after this may read Param::weight.
  void ready(const Run& run);
  // The weights are not needed for a while: ZeRO-3 frees them under reshard_after_use.
  void reshard();
  // The shards changed (optimizer, load): the next unshard collects them again.
  void shards_changed();

  // A step begins: accumulators are zero.
  void zero_grads(const Run& run);
  // Work queued after this may add into Param::gradient.
  void begin_backward(const Run& run);
  // All of the unit's gradients of one micro-batch are in: reduces them now if the policy says so.
  void end_backward(const Run& run);
  // All micro-batches are in: starts to sum over the storage and replica ranks. No-op where end_backward did,
  // or where it has been called already.
  void reduce_grads(const Run& run);
  // Work queued after this may read ShardedParam::gradient.
  void finish_grads(const Run& run);

  std::vector<ShardedParam>& params() { return params_; }
  // True if another pp rank's stage shares a parameter of this unit.
  bool shared_across() const;
  const std::string& name() const { return name_; }

 private:
  enum class State { sharded, gathering, whole };
  bool frees_weights() const { return policy_.stage >= 3; }
  // True where the reduced gradient is an own part of the whole one: ZeRO-1, one reduction a step.
  bool reduces_in_place() const { return policy_.stage == 1 && !policy_.reduce_each_micro_batch; }
  void lay_out(const Groups& groups);
  bool sums_in_bf16(const Param& param) const;
  DType gradient_dtype(const Run& run, const Param& param) const;
  void make_weights(const Run& run);
  void make_gradients(const Run& run);
  bool has_gradients() const;
  void clear_sums(const Run& run);
  void drop_gradients();
  void make_shards(const Run& run, ShardedParam& p, int storage_ranks);
  void start_gather(const Run& run, ShardedParam& p);
  static void join_uses(const Run& run, const Param& param);
  void start_reduce(const Run& run);
  void finish_reduce(const Run& run);
  Tensor scatter_source(const Run& run, const ShardedParam& p, int ranks) const;

  std::string name_;
  ZeroPolicy policy_;
  std::vector<ShardedParam> params_;
  std::vector<std::int64_t> first_;  // of each parameter in the flat buffers, elements
  std::int64_t total_ = 0;
  // Flat buffers of the gradients to which anything adds, and of those that are sums of products; offsets by
  // parameter.
  struct Gradients {
    std::int64_t total = 0;
    Tensor flat;
  };
  std::array<Gradients, 2> gradients_;
  std::vector<std::int64_t> gradient_first_;
  Tensor weights_;  // flat; Param::weight and ::gradient are views; none while freed
  State state_ = State::sharded;
  std::vector<Work> pending_;
  std::vector<std::pair<Tensor, Tensor>>
      staged_;                   // (weight, gathered padded rows) to copy once they are there
  std::vector<Tensor> reduced_;  // by parameter, while a reduction that is not in place runs
  bool reducing_ = false;
};

}  // namespace fivefold
