// Layout of a unit's buffers, and the weights' way from shards to whole and back. Gradients: reduce.cpp.
#include "parallel/fsdp/unit.h"

#include "parallel/fsdp/rows.h"

namespace fivefold {

namespace {
constexpr std::int64_t kGroupAlignment = 64;  // elements; groups start on it, members of a group are adjacent
}

FsdpUnit::FsdpUnit(const Run& run, std::string name, const Groups& groups, ZeroPolicy policy)
    : name_(std::move(name)), policy_(policy) {
  FF_CHECK(policy_.stage >= 1 && policy_.stage <= 3, "zero stage ", policy_.stage);
  lay_out(groups);
  if (!frees_weights()) make_weights(run);
  if (policy_.stage == 1 && policy_.trains) make_gradients(run);
  for (auto& p : params_) make_shards(run, p, storage_group(run, *p.param).size());
}

void FsdpUnit::lay_out(const Groups& groups) {
  for (const auto& group : groups) {
    for (auto* p : group) {
      params_.push_back({.param = p});
      first_.push_back(total_);
      total_ += p->compute_box.count();
      auto& total = gradients_[p->products_only].total;
      gradient_first_.push_back(total);
      total += p->compute_box.count();
    }
    for (auto* total : {&total_, &gradients_[0].total, &gradients_[1].total})
      *total = round_up(*total, kGroupAlignment);
  }
}

bool FsdpUnit::sums_in_bf16(const Param& param) const {
  return policy_.storage.bf16_gradients && param.products_only;
}

DType FsdpUnit::gradient_dtype(const Run& run, const Param& param) const {
  return sums_in_bf16(param) ? DType::bf16 : run.accum();
}

void FsdpUnit::make_weights(const Run& run) {
  weights_ = run.empty({total_}, run.dtype, Tag::weights);
  for (std::size_t i = 0; i < params_.size(); ++i) {
    auto& param = *params_[i].param;
    param.weight = weights_.slice(first_[i], param.compute_box.count()).view(param.compute_box.shape());
  }
}

// In ZeRO 1 and 2 a shard that needs no padding is the rank's own rows of the whole weight.
void FsdpUnit::make_shards(const Run& run, ShardedParam& p, int storage_ranks) {
  const auto& param = *p.param;
  const Shape box = param.compute_box.shape(), own = param.storage_box.shape();
  const auto begin = param.storage_box.begin[0] - param.compute_box.begin[0];
  const bool divides = box[0] % storage_ranks == 0;
  p.padded_rows = ceil_div(box[0], storage_ranks);
  const auto apart = [&](DType type, Tag tag) {
    return run.zeros(with_rows(box, p.padded_rows), type, tag).rows(0, own[0]);
  };
  p.shard =
      divides && !frees_weights() ? param.weight.rows(begin, begin + own[0]) : apart(run.dtype, Tag::weights);
  const auto& storage = policy_.storage;
  if (storage.master == MasterForm::whole)
    p.master = run.dtype == run.accum() ? p.shard : run.zeros(own, run.accum(), Tag::master);
  if (storage.master == MasterForm::remainder) p.remainder = run.empty(own, DType::i16, Tag::master);
  const bool second_holder = param.tied_across && run.mesh.coordinate(Axis::pp) != 0;
  p.owned = !second_holder && owns_box(param.global, param.storage, run.mesh.layout(), run.mesh.position());
  if (!policy_.trains) return;
  p.gradient = divides && reduces_in_place() ? param.gradient.rows(begin, begin + own[0])
                                             : apart(gradient_dtype(run, param), Tag::gradients);
  const auto moments = storage.bf16_moments ? DType::bf16 : run.accum();
  p.m = run.zeros(own, moments, Tag::moments);
  p.v = run.zeros(own, moments, Tag::moments);
}

void FsdpUnit::unshard(const Run& run) {
  if (state_ != State::sharded) return;
  state_ = State::gathering;
  if (params_.empty()) return;
  if (frees_weights()) make_weights(run);
  Group group(storage_group(run, *params_.front().param));
  for (auto& p : params_) start_gather(run, p);
}

void FsdpUnit::start_gather(const Run& run, ShardedParam& p) {
  auto& comm = storage_group(run, *p.param);
  const Tensor& weight = p.param->weight;
  const bool divides = weight.dim(0) % comm.size() == 0;
  if (comm.size() == 1 && !frees_weights()) return;
  Tensor target = weight;
  if (!divides) {
    target = run.empty(with_rows(weight.shape(), p.padded_rows * comm.size()), run.dtype, Tag::communication);
    staged_.emplace_back(weight, target);
  }
  const Tensor mine = p.shard.extended(with_rows(weight.shape(), p.padded_rows));
  pending_.push_back(comm.all_gather(target, mine, run.stream));
}

void FsdpUnit::ready(const Run& run) {
  unshard(run);
  if (state_ == State::whole) return;
  for (auto& work : pending_) work.wait(run.stream);
  pending_.clear();
  for (auto& [weight, gathered] : staged_) run(Convert{.x = gathered.rows(0, weight.dim(0)), .y = weight});
  staged_.clear();
  state_ = State::whole;
}

void FsdpUnit::reshard() {
  if (frees_weights() && policy_.reshard_after_use) shards_changed();
}

void FsdpUnit::shards_changed() {
  FF_CHECK(state_ != State::gathering, name_, " changes while it is being gathered");
  state_ = State::sharded;
  if (!frees_weights()) return;
  weights_ = {};
  for (auto& p : params_) p.param->weight = {};
}

}  // namespace fivefold
