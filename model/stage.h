// A contiguous part of the model on one rank: embedding (first stage), blocks [begin, end), head (last
// stage), with its parameters and the saved state of every micro-batch in flight. One stage may be the whole
// model.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"
#include "model/placement.h"
#include "model/recompute.h"
#include "model/rope.h"
#include "parallel/fsdp/unit.h"

namespace fivefold {

struct StagePlan {
  std::int64_t first_block = 0, end_block = 0;
  bool embeds = true, ends = true;
};

struct StageOptions {
  RecomputePolicy recompute = RecomputePolicy::none;
  ZeroPolicy zero;
  CpStrategy cp_strategy = CpStrategy::ring;
  std::int64_t loss_rows = 1024;           // rows of logits that exist at a time
  std::int64_t context = 0;                // positions the rotary tables hold; 0: the model's context
  std::shared_ptr<const RopeTables> rope;  // those tables, made before; null: each stage makes its own
};

// Every parameter of the model as this rank sees it; only those of its stages have memory. The stages of a
// rank share it, so a tied embedding whose two uses meet on one rank is one parameter.
struct ParamTable {
  std::deque<Param> params;  // in global order
  std::map<std::string, Param*> by_name;
  Param* find(const std::string& name) const;  // null if the model has none
};
std::unique_ptr<ParamTable> make_param_table(const ModelConfig& config, const MeshLayout& mesh, int position);

class Stage {
 public:
  // `embedding` is the stage of this rank that embeds, if it is another one (a tied head reads its table); it
  // outlives this.
  Stage(const Run& run, const ModelConfig& config, const StagePlan& plan, const StageOptions& options,
        ParamTable& table, Stage* embedding = nullptr);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // `input` is the previous stage's output, [T/tp, D]; none on the first stage. Returns the stream for the
  // next stage, none on the last, which adds the micro-batch's loss to `request.loss`.
  Tensor forward(const Run& run, int micro_batch, const TokenRows& rows, const Tensor& input,
                 const LossRequest& request);
  // `d_output` from the next stage, none on the last. Returns the gradient for the previous stage, none on
  // the first.
  Tensor backward_input(const Run& run, int micro_batch, const Tensor& d_output);
  void backward_weight(const Run& run, int micro_batch);
  // Both, block by block, so that a block's saved state is freed before the next one's gradients are made.
  Tensor backward(const Run& run, int micro_batch, const Tensor& d_output);
  // Forward without loss and without saving: the logits [T, V/tp] on the last stage.
  Tensor logits(const Run& run, const TokenRows& rows, const Tensor& input);
  // Generation on a stage that is the whole model: the logits [1, V/tp] behind the last of `rows`, which
  // follow those that `caches` (one a block) have seen. rows.k_index names all rows so far. Not under full
  // recompute.
  Tensor decode(const Run& run, const TokenRows& rows, KvCaches& caches);

  std::vector<FsdpUnit>& units() { return units_; }
  const StagePlan& plan() const { return plan_; }
  std::int64_t in_flight() const { return static_cast<std::int64_t>(in_flight_.size()); }

 private:
  using Layer = Recompute<Block>;
  struct Saved {
    TokenRows rows;
    std::vector<Layer::Saved> blocks;
    Embedding::Saved embedding;
    Head::Saved head;
  };
  enum class Direction { forward, backward };
  // Weights of a unit are there and those of the next are on their way.
  void use(const Run& run, std::size_t index, Direction direction);
  void use_for_gradients(const Run& run, std::size_t index);
  std::size_t block_unit(std::size_t block) const { return block + (embedding_ ? 1 : 0); }
  std::size_t head_unit() const { return units_.size() - 1; }
  Residual enter(const Run& run, const TokenRows& rows, const Tensor& input);
  Residual run_blocks(const Run& run, Residual stream, const TokenRows& rows, Saved& saved);
  void use_head(const Run& run, bool gradient);
  Tensor leave_head(const Run& run, Saved& saved);
  Tensor block_input(const Run& run, std::size_t i, const Tensor& dy, Saved& saved);
  void block_weight(const Run& run, std::size_t i, Saved& saved);
  void embedding_weight(const Run& run, Saved& saved);
  void make_units(const Run& run, const ZeroPolicy& policy);
  FsdpUnit make_unit(const Run& run, const std::string& name, ZeroPolicy policy, std::int64_t block);
  bool holds_tied_table() const;
  NormLayer norm(const std::string& name);
  Block block(std::int64_t index);

  ModelConfig config_;
  CpStrategy cp_strategy_;
  StagePlan plan_;
  ParamTable& table_;
  Stage* embedding_stage_;       // where a tied head finds its table: this, another, or none
  std::vector<FsdpUnit> units_;  // embedding (if any), blocks, head (if any)
  Tensor cos_, sin_;
  std::optional<Embedding> embedding_;
  std::vector<Layer> blocks_;
  std::optional<Head> head_;
  std::map<int, Saved> in_flight_;  // by micro-batch
};

}  // namespace fivefold
