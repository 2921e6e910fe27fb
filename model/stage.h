// A contiguous part of the model on one rank: embedding (first stage), blocks [begin, end), head (last stage), with its
// parameters and the saved state of every micro-batch in flight. One stage may be the whole model.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"
#include "model/placement.h"
#include "model/recompute.h"
#include "parallel/fsdp/unit.h"

namespace fivefold {

struct StagePlan {
  std::int64_t first_block = 0, end_block = 0;
  bool embeds = true, ends = true;
};

struct StageOptions {
  RecomputePolicy recompute = RecomputePolicy::none;
  ZeroPolicy zero;
  std::int64_t loss_rows = 1024;   // rows of logits that exist at a time
};

class Stage {
 public:
  Stage(const Run& run, const ModelConfig& config, const StagePlan& plan, const StageOptions& options);

  // `input` is the previous stage's output, [T/tp, D]; none on the first stage. Returns the stream for the next stage, none
  // on the last, which adds the micro-batch's loss to `request.loss`.
  Tensor forward(const Run& run, int micro_batch, const TokenRows& rows, const Tensor& input, const LossRequest& request);
  // `d_output` from the next stage, none on the last. Returns the gradient for the previous stage, none on the first.
  Tensor backward_input(const Run& run, int micro_batch, const Tensor& d_output);
  void backward_weight(const Run& run, int micro_batch);
  // Both, block by block, so that a block's saved state is freed before the next one's gradients are made.
  Tensor backward(const Run& run, int micro_batch, const Tensor& d_output);
  // Forward without loss and without saving: the logits [T, V/tp] on the last stage.
  Tensor logits(const Run& run, const TokenRows& rows, const Tensor& input);

  std::vector<FsdpUnit>& units() { return units_; }
  std::deque<Param>& params() { return params_; }   // of the whole model; only this stage's are allocated
  std::vector<ShardedParam*> sharded();              // of this stage, in global parameter order
  int parameter_count() const { return static_cast<int>(params_.size()); }   // of the whole model

 private:
  using Layer = Recompute<Block>;
  struct Saved {
    TokenRows rows;
    std::vector<Layer::Saved> blocks;
    Embedding::Saved embedding;
    Head::Saved head;
  };
  void use(const Run& run, std::size_t index);
  Residual run_blocks(const Run& run, Residual stream, const TokenRows& rows, Saved& saved);
  Residual enter(const Run& run, const TokenRows& rows, const Tensor& input);
  void make_units(const Run& run, const ZeroPolicy& policy);
  FsdpUnit make_unit(const Run& run, const std::string& name, const ZeroPolicy& policy, std::int64_t block);
  Param* find(const std::string& name);
  NormLayer norm(const std::string& name);
  Block block(std::int64_t index);

  ModelConfig config_;
  StagePlan plan_;
  std::deque<Param> params_;
  std::map<std::string, Param*> by_name_;
  std::vector<FsdpUnit> units_;      // embedding (if any), blocks, head (if any)
  Tensor cos_, sin_;
  std::optional<Embedding> embedding_;
  std::vector<Layer> blocks_;
  std::optional<Head> head_;
  std::map<int, Saved> in_flight_;   // by micro-batch
};

}  // namespace fivefold
