// Micro-batches through a stage: forward, backward in one go, or its input and weight parts apart.
#include "model/stage.h"

namespace fivefold {

void Stage::use(const Run& run, std::size_t index, Direction direction) {
  units_[index].unshard(run);
  if (direction == Direction::forward && index + 1 < units_.size()) units_[index + 1].unshard(run);
  // The embedding's backward reads no weights: nothing before the first block is fetched.
  if (direction == Direction::backward && index > block_unit(0)) units_[index - 1].unshard(run);
  units_[index].ready(run);
}

void Stage::use_for_gradients(const Run& run, std::size_t index) {
  use(run, index, Direction::backward);
  units_[index].begin_backward(run);
}

// The head's gradients are made in its forward: its unit, and the table's where that is tied, take part in
// both.
void Stage::use_head(const Run& run, bool gradient) {
  std::vector<FsdpUnit*> units{&units_[head_unit()]};
  if (config_.tie_embeddings && embedding_stage_) units.push_back(&embedding_stage_->units_.front());
  for (auto* unit : units) {
    unit->ready(run);
    if (gradient) unit->begin_backward(run);
  }
}

Residual Stage::enter(const Run& run, const TokenRows& rows, const Tensor& input) {
  if (!embedding_) return {input, {}};
  use(run, 0, Direction::forward);
  const auto x = embedding_->forward(run, rows);
  units_[0].reshard();
  return {x, {}};
}

Residual Stage::run_blocks(const Run& run, Residual stream, const TokenRows& rows, Saved& saved) {
  saved.blocks.resize(blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    use(run, block_unit(i), Direction::forward);
    stream = blocks_[i].forward(run, std::move(stream), rows, saved.blocks[i]);
    units_[block_unit(i)].reshard();
  }
  return stream;
}

Tensor Stage::forward(const Run& run, int micro_batch, const TokenRows& rows, const Tensor& input,
                      const LossRequest& request) {
  Saved saved{.rows = rows};
  auto stream = run_blocks(run, enter(run, rows, input), rows, saved);
  Tensor out;
  if (head_) {
    use_head(run, request.gradient);
    head_->forward(run, std::exchange(stream, {}), rows, request, saved.head);
  } else {
    out = summed(run, stream);
  }
  if (request.gradient) in_flight_[micro_batch] = std::move(saved);
  return out;
}

Tensor Stage::leave_head(const Run& run, Saved& saved) {
  use_for_gradients(run, head_unit());
  auto d = head_->backward_input(run, saved.head);
  units_[head_unit()].reshard();
  if (config_.tie_embeddings && embedding_stage_ && embedding_stage_ != this)
    embedding_stage_->units_.front().reshard();
  units_[head_unit()].end_backward(run);
  return d;
}

Tensor Stage::block_input(const Run& run, std::size_t i, const Tensor& dy, Saved& saved) {
  use_for_gradients(run, block_unit(i));
  auto d = blocks_[i].backward_input(run, dy, saved.rows, saved.blocks[i]);
  units_[block_unit(i)].reshard();
  return d;
}

void Stage::block_weight(const Run& run, std::size_t i, Saved& saved) {
  auto& unit = units_[block_unit(i)];
  unit.begin_backward(
      run);  // an earlier micro-batch's weight step may have come, and reduced, since the input step
  blocks_[i].backward_weight(run, saved.blocks[i]);
  unit.end_backward(run);
}

void Stage::embedding_weight(const Run& run, Saved& saved) {
  units_[0].begin_backward(run);
  embedding_->backward_weight(run, saved.rows, saved.embedding);
  units_[0].end_backward(run);
}

Tensor Stage::backward_input(const Run& run, int micro_batch, const Tensor& d_output) {
  auto& saved = in_flight_.at(micro_batch);
  auto d = head_ ? leave_head(run, saved) : d_output;
  for (auto i = blocks_.size(); i-- > 0;) d = block_input(run, i, d, saved);
  if (!embedding_) return d;
  embedding_->backward_input(d, saved.embedding);
  return {};
}

void Stage::backward_weight(const Run& run, int micro_batch) {
  auto& saved = in_flight_.at(micro_batch);
  for (auto i = blocks_.size(); i-- > 0;) block_weight(run, i, saved);
  if (embedding_) embedding_weight(run, saved);
  in_flight_.erase(micro_batch);
}

Tensor Stage::backward(const Run& run, int micro_batch, const Tensor& d_output) {
  auto& saved = in_flight_.at(micro_batch);
  auto d = head_ ? leave_head(run, saved) : d_output;
  for (auto i = blocks_.size(); i-- > 0;) {
    d = block_input(run, i, d, saved);
    block_weight(run, i, saved);
  }
  if (embedding_) {
    embedding_->backward_input(d, saved.embedding);
    embedding_weight(run, saved);
  }
  in_flight_.erase(micro_batch);
  return embedding_ ? Tensor{} : d;
}

Tensor Stage::logits(const Run& run, const TokenRows& rows, const Tensor& input) {
  FF_CHECK(head_, "logits come from the last stage");
  Saved saved;
  const auto stream = run_blocks(run, enter(run, rows, input), rows, saved);
  use_head(run, false);
  return head_->logits(run, stream);
}

Tensor Stage::decode(const Run& run, const TokenRows& rows, KvCaches& caches) {
  FF_CHECK(embedding_ && head_, "generation runs the whole model as one stage");
  FF_CHECK_EQ(caches.size(), blocks_.size(), "one cache a block");
  Saved saved;
  saved.blocks.resize(blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) saved.blocks[i].inner.attention.past = &caches[i];
  auto stream = run_blocks(run, enter(run, rows, {}), rows, saved);
  use_head(run, false);
  const auto last = rows.count() - 1;
  const auto row = [&](const Tensor& t) { return t ? t.rows(last, last + 1) : t; };
  return head_->logits(run, {row(stream.x), row(stream.delta)});
}

}  // namespace fivefold
