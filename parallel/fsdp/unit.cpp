// Gathering weights from shards, reducing gradients into them.
#include "parallel/fsdp/unit.h"

namespace fivefold {

namespace {

constexpr std::int64_t kGroupAlignment = 64;   // elements; groups start on it, members of a group are adjacent

Shape with_rows(Shape shape, std::int64_t rows) {
  shape[0] = rows;
  return shape;
}

Communicator& replicas(const Run& run, const Param& param) {
  return run.mesh.over(replica_axes(param, run.mesh.layout()), "weights");
}

}  // namespace

FsdpUnit::FsdpUnit(const Run& run, std::string name, const Groups& groups, ZeroPolicy policy)
    : name_(std::move(name)), policy_(policy) {
  FF_CHECK_EQ(policy_.stage, 1, "zero stage");
  allocate(run, groups);
}

Communicator& FsdpUnit::storage(const Run& run, const Param& param) const {
  return run.mesh.over(storage_axes(param.view), "weights");
}

void FsdpUnit::allocate(const Run& run, const Groups& groups) {
  std::int64_t total = 0;
  for (const auto& group : groups) {
    for (const auto* p : group) total += p->compute_box.count();
    total = round_up(total, kGroupAlignment);
  }
  weights_ = run.empty({total}, run.dtype, Tag::weights);
  gradients_ = run.zeros({total}, run.accum(), Tag::gradients);
  std::int64_t first = 0;
  for (const auto& group : groups) {
    for (auto* p : group) {
      add_param(run, *p, first);
      first += p->compute_box.count();
    }
    first = round_up(first, kGroupAlignment);
  }
}

void FsdpUnit::add_param(const Run& run, Param& param, std::int64_t first) {
  const Shape box = param.compute_box.shape();
  param.weight = weights_.slice(first, box.count()).view(box);
  param.gradient = gradients_.slice(first, box.count()).view(box);
  auto& comm = storage(run, param);
  ShardedParam p{.param = &param, .padded_rows = ceil_div(box[0], comm.size())};
  const Shape own = param.storage_box.shape();
  const auto begin = param.storage_box.begin[0] - param.compute_box.begin[0];
  if (box[0] % comm.size() == 0) {
    p.shard = param.weight.rows(begin, begin + own[0]);
    p.gradient = param.gradient.rows(begin, begin + own[0]);
  } else {
    p.shard = run.zeros(with_rows(box, p.padded_rows), run.dtype, Tag::weights).rows(0, own[0]);
    p.gradient = run.zeros(with_rows(box, p.padded_rows), run.accum(), Tag::gradients).rows(0, own[0]);
  }
  p.master = run.dtype == run.accum() ? p.shard : run.zeros(own, run.accum(), Tag::master);
  p.m = run.zeros(own, run.accum(), Tag::moments);
  p.v = run.zeros(own, run.accum(), Tag::moments);
  p.owned = owns_box(param.global, param.storage, run.mesh.layout(), run.mesh.position());
  params_.push_back(std::move(p));
}

void FsdpUnit::unshard(const Run& run) {
  if (state_ != State::sharded) return;
  state_ = State::gathering;
  if (params_.empty()) return;
  Group group(storage(run, *params_.front().param));
  for (auto& p : params_) start_gather(run, p);
}

void FsdpUnit::start_gather(const Run& run, ShardedParam& p) {
  auto& comm = storage(run, *p.param);
  if (comm.size() == 1) return;
  const Tensor& weight = p.param->weight;
  Tensor target = weight;
  if (weight.dim(0) % comm.size() != 0) {
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

void FsdpUnit::reshard(const Run&) {}

void FsdpUnit::shards_changed() {
  FF_CHECK(state_ != State::gathering, name_, " changes while it is being gathered");
  state_ = State::sharded;
}

void FsdpUnit::zero_grads(const Run& run) {
  run(Fill{.x = gradients_, .value = 0});
  for (auto& p : params_)
    if (p.param->tied_gradient) run(Fill{.x = p.param->tied_gradient, .value = 0});
}

void FsdpUnit::reduce_grads(const Run& run) {
  if (params_.empty()) return;
  for (auto& p : params_)
    if (auto& second = p.param->tied_gradient) run(Convert{.x = second, .y = p.param->gradient, .accumulate = true});
  Group group(storage(run, *params_.front().param));
  for (auto& p : params_) start_reduce(run, p);
}

void FsdpUnit::start_reduce(const Run& run, ShardedParam& p) {
  auto& comm = storage(run, *p.param);
  if (comm.size() == 1) return;
  Tensor source = p.param->gradient;
  const auto rows = source.dim(0);
  if (rows % comm.size() != 0) {
    source = run.zeros(with_rows(source.shape(), p.padded_rows * comm.size()), run.accum(), Tag::communication);
    run(Convert{.x = p.param->gradient, .y = source.rows(0, rows)});
  }
  const Tensor mine = p.gradient.extended(with_rows(source.shape(), p.padded_rows));
  pending_.push_back(comm.reduce_scatter(mine, source, run.stream));
}

void FsdpUnit::finish_grads(const Run& run) {
  for (auto& work : pending_) work.wait(run.stream);
  pending_.clear();
  for (auto& p : params_) {
    auto& comm = replicas(run, *p.param);
    if (comm.size() > 1) pending_.push_back(comm.all_reduce(p.gradient, Reduce::sum, run.stream));
  }
  for (auto& work : pending_) work.wait(run.stream);
  pending_.clear();
}

}  // namespace fivefold
