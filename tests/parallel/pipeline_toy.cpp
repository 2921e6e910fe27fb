#include "tests/parallel/pipeline_toy.h"

#include <algorithm>

namespace fivefold {

namespace {

std::uint64_t add_to_order(std::uint64_t order, int micro_batch, double added) {
  return order * 1000003 + static_cast<std::uint64_t>(micro_batch) * 31 +
         static_cast<std::uint64_t>(static_cast<std::int64_t>(added));
}

}  // namespace

std::vector<CarriedShape> ToyPlan::shapes() const {
  std::vector<CarriedShape> out;
  for (int m = 0; m < micro_batches; ++m)
    out.push_back({.rows = {rows(m), 3}, .side = side ? std::optional(Shape{1}) : std::nullopt});
  return out;
}

std::map<int, ToyResult> toy_reference(const ToyPlan& plan) {
  std::map<int, ToyResult> out;
  for (int m = 0; m < plan.micro_batches; ++m) {
    const auto count = plan.rows(m) * 3;
    std::vector<std::vector<double>> x(plan.stages + 1, std::vector<double>(count));
    for (std::int64_t i = 0; i < count; ++i) x[0][i] = plan.x(m, i);
    for (int s = 0; s < plan.stages; ++s)
      for (std::int64_t i = 0; i < count; ++i) x[s + 1][i] = ToyPlan::weight(s) * x[s][i] + s;
    std::vector<double> d(count);
    for (std::int64_t i = 0; i < count; ++i) {
      d[i] = plan.target(m, i);
      out[plan.stages - 1].loss += x[plan.stages][i] * d[i];
    }
    for (int s = plan.stages; s-- > 0;) {
      double added = 0;
      for (std::int64_t i = 0; i < count; ++i) added += x[s][i] * d[i];
      for (auto& value : d) value *= ToyPlan::weight(s);
      out[s].gradient += added;
      out[s].order = add_to_order(out[s].order, m, added);
      if (plan.side) {
        out[s].forward_side += s;
        out[s].backward_side += plan.stages - 1 - s;
      }
    }
  }
  return out;
}

ToyStage::ToyStage(const Run& run, Communicator& data, const ToyPlan& plan, int stage)
    : run_(run),
      data_(data),
      plan_(plan),
      stage_(stage),
      first_(stage == 0),
      last_(stage + 1 == plan.stages) {
  own_ = filled({1}, 0);
  other_ = filled({1}, 0);
}

Tensor ToyStage::filled(Shape shape, double value) const {
  auto out = run_.activation(shape);
  std::fill_n(out.data<double>(), out.count(), value);
  return out;
}

void ToyStage::meet() {
  const auto token = run_.empty({1}, DType::f64, Tag::workspace);
  *token.data<double>() = stage_;
  data_.all_reduce(token, Reduce::max, run_.stream).wait(run_.stream);
}

Carried ToyStage::forward(int m, Carried input) {
  FF_CHECK_EQ(static_cast<bool>(input.rows), !first_);
  meet();
  const auto count = plan_.rows(m) * 3;
  Saved saved;
  for (std::int64_t i = 0; i < count; ++i)
    saved.x.push_back(first_ ? plan_.x(m, i) : input.rows.data<double>()[i]);
  const auto y = [&](std::int64_t i) { return ToyPlan::weight(stage_) * saved.x[i] + stage_; };
  Carried out;
  if (last_) {
    for (std::int64_t i = 0; i < count; ++i) result_.loss += y(i) * plan_.target(m, i);
  } else {
    out.rows = filled({plan_.rows(m), 3}, 0);
    for (std::int64_t i = 0; i < count; ++i) out.rows.data<double>()[i] = y(i);
    const double before = input.side ? *input.side.data<double>() : 0;
    if (plan_.side) out.side = filled({1}, before + 1);
  }
  if (input.side) result_.forward_side += *input.side.data<double>();
  if (plan_.train) saved_[m] = std::move(saved);
  result_.most_held = std::max(result_.most_held, static_cast<int>(saved_.size()));
  return out;
}

Carried ToyStage::backward_input(int m, Carried d_output) {
  FF_CHECK_EQ(static_cast<bool>(d_output.rows), !last_);
  meet();
  auto& saved = saved_.at(m);
  const auto count = plan_.rows(m) * 3;
  for (std::int64_t i = 0; i < count; ++i)
    saved.d.push_back(last_ ? plan_.target(m, i) : d_output.rows.data<double>()[i]);
  if (d_output.side) result_.backward_side += *d_output.side.data<double>();
  if (first_) return {};
  Carried out(filled({plan_.rows(m), 3}, 0));
  for (std::int64_t i = 0; i < count; ++i) out.rows.data<double>()[i] = ToyPlan::weight(stage_) * saved.d[i];
  if (plan_.side) out.side = filled({1}, (d_output.side ? *d_output.side.data<double>() : 0) + 1);
  return out;
}

void ToyStage::backward_weight(int m) {
  meet();
  const auto& saved = saved_.at(m);
  double added = 0;
  for (std::size_t i = 0; i < saved.x.size(); ++i) added += saved.x[i] * saved.d[i];
  result_.gradient += added;
  result_.order = add_to_order(result_.order, m, added);
  unreduced_ += added;
  *own_.data<double>() += added;
  saved_.erase(m);
}

Carried ToyStage::backward(int m, Carried d_output) {
  auto out = backward_input(m, std::move(d_output));
  backward_weight(m);
  return out;
}

void ToyStage::reduce_grads(int) {
  const auto sum = filled({1}, std::exchange(unreduced_, 0));
  data_.all_reduce(sum, Reduce::sum, run_.stream).wait(run_.stream);
  result_.reduced += *sum.data<double>();
}

ToyResult ToyStage::result() const {
  auto out = result_;
  out.tied = *own_.data<double>() + *other_.data<double>();
  return out;
}

}  // namespace fivefold
