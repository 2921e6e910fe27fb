// The gradients' way from whole sums of this rank's rows to shards of the sum over all ranks: reduce-scatter
// over the storage ranks, then all-reduce over the replicas.
#include <algorithm>

#include "parallel/fsdp/rows.h"
#include "parallel/fsdp/unit.h"

namespace fivefold {

void FsdpUnit::make_gradients(const Run& run) {
  const auto products = policy_.storage.bf16_gradients ? DType::bf16 : run.accum();
  for (const bool products_only : {false, true}) {
    auto& [total, flat] = gradients_[products_only];
    if (total > 0) flat = run.empty({total}, products_only ? products : run.accum(), Tag::gradients);
  }
  for (std::size_t i = 0; i < params_.size(); ++i) {
    auto& param = *params_[i].param;
    const auto shape = param.compute_box.shape();
    const Tensor& flat = gradients_[param.products_only].flat;
    param.gradient = flat.slice(gradient_first_[i], shape.count()).view(shape);
    if (param.tied) param.tied_gradient = run.zeros(shape, run.accum(), Tag::gradients);
  }
  clear_sums(run);
}

bool FsdpUnit::has_gradients() const { return gradients_[0].flat || gradients_[1].flat; }

// The first product writes its gradient, so that those need no zeros: most of the bytes.
void FsdpUnit::clear_sums(const Run& run) {
  if (!has_gradients()) return;
  if (const auto& flat = gradients_[false].flat) run(Fill{.x = flat, .value = 0});
  for (auto& p : params_) p.param->fresh = p.param->products_only;
}

void FsdpUnit::drop_gradients() {
  for (auto& gradients : gradients_) gradients.flat = {};
  for (auto& p : params_) p.param->gradient = p.param->tied_gradient = {};
}

void FsdpUnit::zero_grads(const Run& run) {
  clear_sums(run);
  for (auto& p : params_) {
    if (p.param->tied_gradient) run(Fill{.x = p.param->tied_gradient, .value = 0});
    if (!reduces_in_place() || p.param->gradient.dim(0) % storage_group(run, *p.param).size() != 0)
      run(Fill{.x = p.gradient, .value = 0});
  }
}

void FsdpUnit::begin_backward(const Run& run) {
  if (!has_gradients()) make_gradients(run);
}

void FsdpUnit::end_backward(const Run& run) {
  if (!policy_.reduce_each_micro_batch) return;
  start_reduce(run);
  finish_reduce(run);
  if (policy_.stage == 1) clear_sums(run);
}

void FsdpUnit::reduce_grads(const Run& run) {
  if (!policy_.reduce_each_micro_batch && !reducing_) start_reduce(run);
}

void FsdpUnit::finish_grads(const Run& run) {
  if (!policy_.reduce_each_micro_batch) finish_reduce(run);
}

// The gradient as the reduce-scatter takes it: equal rows for every rank, padded with zeros where they do not
// divide.
Tensor FsdpUnit::scatter_source(const Run& run, const ShardedParam& p, int ranks) const {
  const Tensor& whole_gradient = p.param->gradient;
  const auto rows = whole_gradient.dim(0);
  if (rows % ranks == 0) return whole_gradient;
  auto padded = run.zeros(with_rows(whole_gradient.shape(), p.padded_rows * ranks), whole_gradient.dtype(),
                          Tag::communication);
  run(Convert{.x = whole_gradient, .y = padded.rows(0, rows)});
  return padded;
}

bool FsdpUnit::shared_across() const {
  return std::any_of(params_.begin(), params_.end(), [](const auto& p) { return p.param->tied_across; });
}

// Both uses of a tied parameter, added before anything is cut.
void FsdpUnit::join_uses(const Run& run, const Param& param) {
  if (const auto& second = param.tied_gradient) {
    run(Convert{.x = second, .y = param.gradient, .accumulate = true});
    run(Fill{.x = second, .value = 0});
  }
  if (param.tied_across)
    run.mesh.over({Axis::pp}, "tied").all_reduce(param.gradient, Reduce::sum, run.stream).wait(run.stream);
}

void FsdpUnit::start_reduce(const Run& run) {
  FF_CHECK(!reducing_, name_, " is being reduced already");
  reducing_ = true;
  if (params_.empty()) return;
  begin_backward(run);  // a unit that saw no micro-batch still takes part, with zeros
  for (auto& p : params_) {
    if (std::exchange(p.param->fresh, false)) run(Fill{.x = p.param->gradient, .value = 0});
    join_uses(run, *p.param);
  }
  Group group(storage_group(run, *params_.front().param));
  for (auto& p : params_) {
    auto& comm = storage_group(run, *p.param);
    const auto padded = with_rows(p.param->compute_box.shape(), p.padded_rows);
    const bool in_place = reduces_in_place();
    reduced_.push_back(in_place ? p.gradient.extended(padded)
                                : run.empty(padded, p.gradient.dtype(), Tag::communication));
    pending_.push_back(comm.reduce_scatter(reduced_.back(), scatter_source(run, p, comm.size()), run.stream));
  }
}

void FsdpUnit::finish_reduce(const Run& run) {
  FF_CHECK(reducing_, name_, " is not being reduced");
  reducing_ = false;
  for (auto& work : pending_) work.wait(run.stream);
  pending_.clear();
  for (std::size_t i = 0; i < params_.size(); ++i)
    pending_.push_back(
        replica_group(run, *params_[i].param).all_reduce(reduced_[i], Reduce::sum, run.stream));
  for (auto& work : pending_) work.wait(run.stream);
  pending_.clear();
  for (std::size_t i = 0; i < params_.size() && !reduces_in_place(); ++i) {
    const auto& gradient = params_[i].gradient;
    run(Convert{.x = reduced_[i].rows(0, gradient.dim(0)), .y = gradient, .accumulate = true});
  }
  reduced_.clear();
  if (policy_.stage > 1) drop_gradients();
}

}  // namespace fivefold
