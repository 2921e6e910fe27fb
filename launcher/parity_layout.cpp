// Runs both sides step by step; boxes of the layout come to world rank 0, which holds whole tensors.
#include "launcher/parity_layout.h"

#include <cmath>

#include "core/transfer.h"
#include "launcher/parity_side.h"
#include "launcher/rank_device.h"

namespace fivefold {

namespace {

constexpr std::int64_t kMostParameters = 500'000'000;

// Errors of tensors are relative to max(largest element, a floor).
struct Tolerances {
  double loss, norm, gradients, weights;
  double gradient_floor;  // x gradient norm
};

// bf16: in multiples of its own distance from f32.
Tolerances tolerances_of(DType dtype) {
  if (dtype == DType::f64) return {1e-10, 1e-10, 1e-10, 1e-10, 1e-6};
  if (dtype == DType::bf16) return {2, 2, 2, 2, 1e-4};
  const auto r = reference_tolerances(DType::f32);
  return {r.loss, r.grad_norm, r.gradients, r.weights, r.gradient_floor};
}

double worse(double a, double b) { return std::isnan(b) ? INFINITY : std::max(a, b); }

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0;
  for (std::size_t i = 0; i < a.size(); ++i) error = worse(error, std::abs(a[i] - b[i]));
  return error;
}

// The elements of a box of a whole tensor of at most two dims, row-major.
std::vector<double> cut_out(const std::vector<double>& whole, const Shape& global, const Box& box) {
  const auto columns = global.row_count();
  const bool matrix = global.rank() == 2;
  const auto first = matrix ? box.begin[1] : 0, end = matrix ? box.end[1] : 1;
  std::vector<double> out;
  for (auto r = box.begin[0]; r < box.end[0]; ++r)
    out.insert(out.end(), whole.begin() + r * columns + first, whole.begin() + r * columns + end);
  return out;
}

class Comparer {
 public:
  Comparer(const Config& config, RankContext& context)
      : source_(parity_batches(config)),
        dtype_(config.train.precision),
        lr_(config.optimizer.lr),
        infos_(parameter_list(config.model)),
        device_(rank_device(config.train, context)),
        layout_(config, context.transport, context.slots, device_, source_) {
    if (context.world_rank() != 0) return;
    alone_.emplace(config, dtype_, device_, source_);
    if (dtype_ == DType::bf16) exact_.emplace(config, DType::f32, device_, source_);
  }

  LayoutParity run(std::int64_t steps, const std::function<void(Engine&)>& spoil) {
    const auto t = tolerances_of(dtype_);
    Comparison loss{"loss of each step", 0, t.loss, {}}, norm{"gradient norm of each step", 0, t.norm, {}};
    Comparison gradients{"every gradient of each step", 0, t.gradients, {}},
        weights{"every weight after the last", 0, t.weights, {}};
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto where = str("step ", step);
      note_scalar(
          loss, where, layout_.accumulate(step), [&](ParityAlone& a) { return a.side().accumulate(step); },
          false);
      if (spoil) spoil(layout_.engine());
      compare_tensors(gradients, &ShardedParam::gradient, t.gradient_floor * gradient_norm(), " in " + where,
                      step == 0);
      note_scalar(
          norm, where, layout_.update(), [](ParityAlone& a) { return a.side().update(); }, true);
    }
    compare_tensors(weights, &ShardedParam::master, lr_ * static_cast<double>(steps), "", false);
    if (!alone_) return {};
    return {{loss, norm, gradients, weights}, std::move(culprits_)};
  }

 private:
  // Losses differ absolutely, norms relatively; in bf16 both in units of its own error.
  template <class F>
  void note_scalar(Comparison& c, const std::string& where, double ours, F&& of, bool relative) {
    if (!alone_) return;
    const double theirs = of(*alone_);
    double error = std::abs(ours - theirs), unit = relative ? std::abs(theirs) : 1;
    if (exact_) unit = own_error(std::abs(theirs - of(*exact_)), std::abs(theirs));
    note(c, error == 0 ? 0 : error / unit, where);
  }
  // What bf16 itself gets wrong: measured, but not below its unit in the last place, since two values may
  // agree by chance.
  static double own_error(double measured, double size) { return std::max(measured, size * 0x1p-9); }

  double gradient_norm() {
    double squares = 0;
    if (alone_)
      for (const auto& p : layout_.engine().table().params)
        for (const double g : alone_->values(p, &ShardedParam::gradient)) squares += g * g;
    return std::sqrt(squares);
  }

  // Every box of every holder goes to world rank 0, parameter after parameter.
  void compare_tensors(Comparison& c, Tensor ShardedParam::*member, double floor, const std::string& when,
                       bool each_its_own) {
    const bool was_ok = c.ok();
    const auto units = units_of(member, floor, each_its_own);
    for (const auto& param : layout_.engine().table().params) {
      if (alone_)
        receive_and_compare(c, param, member, {floor, units[static_cast<std::size_t>(param.index)]}, when,
                            was_ok && c.ok());
      else
        send(param, member);
    }
  }

  // By parameter, what errors are multiples of: 1, in bf16 its own error. Of each tensor before the first
  // update; after it the largest of all, since Adam makes steps of the learning rate out of what is rounding
  // in a gradient near zero, and which elements those are is chance.
  std::vector<double> units_of(Tensor ShardedParam::*member, double floor, bool each_its_own) {
    std::vector<double> units(infos_.size(), 1.0);
    if (!exact_) return units;
    for (const auto& param : layout_.engine().table().params) {
      const auto theirs = alone_->values(param, member);
      const double error =
          difference(theirs, exact_->values(param, member)) / std::max(largest_of(theirs), floor);
      units[static_cast<std::size_t>(param.index)] = own_error(error, 1);
    }
    if (!each_its_own) units.assign(units.size(), *std::max_element(units.begin(), units.end()));
    return units;
  }

  const ShardedParam* own(const Param& param) {
    for (const auto* p : layout_.engine().params())
      if (p->param == &param) return p;
    return nullptr;
  }

  void send(const Param& param, Tensor ShardedParam::*member) {
    const auto* p = own(param);
    if (!p || param.storage_box.count() == 0) return;
    const auto& run = layout_.engine().run();
    run.mesh.world().send(p->in_full(run, member), 0, run.stream).wait(run.stream);
  }

  // Errors are relative to max(largest element, floor), and in units.
  struct Measure {
    double floor = 0, unit = 1;
  };
  void receive_and_compare(Comparison& c, const Param& param, Tensor ShardedParam::*member,
                           const Measure& measure, const std::string& when, bool first) {
    const auto theirs = alone_->values(param, member);
    const double scale = std::max(largest_of(theirs), measure.floor) * measure.unit;
    double largest = 0;
    int worst = 0;
    for (const int position : holders(param)) {
      const auto box = box_at(param, position);
      const double error =
          difference(received(param, member, position, box), cut_out(theirs, param.global, box)) / scale;
      if (error > largest || std::isnan(error)) largest = worse(largest, error), worst = position;
    }
    note(c, largest, param.name + when);
    if (first && !c.ok()) culprits_.push_back(described(c, param, when, largest, worst));
  }

  // Mesh positions with a box of the parameter, ascending.
  std::vector<int> holders(const Param& param) {
    const auto& mesh = layout_.engine().mesh().layout();
    const auto pp_ranks = pp_ranks_of(infos_[static_cast<std::size_t>(param.index)],
                                      layout_.engine().options().model, layout_.engine().pipeline());
    std::vector<int> out;
    for (int position = 0; position < mesh.shape().world(); ++position)
      if (std::count(pp_ranks.begin(), pp_ranks.end(), mesh.coordinate(position, Axis::pp)) > 0 &&
          box_at(param, position).count() > 0)
        out.push_back(position);
    return out;
  }
  Box box_at(const Param& param, int position) {
    return box_of(param.global, param.storage, layout_.engine().mesh().layout(), position);
  }

  std::vector<double> received(const Param& param, Tensor ShardedParam::*member, int position,
                               const Box& box) {
    const auto& run = layout_.engine().run();
    if (position == run.mesh.position()) return to_host(own(param)->in_full(run, member), run.stream);
    const auto t = run.empty(box.shape(), run.accum(), Tag::communication);
    run.mesh.world().recv(t, run.mesh.world_rank_at(position), run.stream).wait(run.stream);
    return to_host(t, run.stream);
  }

  std::string described(const Comparison& c, const Param& param, const std::string& when, double error,
                        int position) {
    const auto& mesh = layout_.engine().mesh();
    std::string text =
        str(c.quantity, ": first ", param.name, when, " of shape ", param.global, ", computed cut ",
            to_string(param.compute), ", stored cut ", to_string(param.storage), "; error ", error,
            " on world rank ", mesh.world_rank_at(position), " (");
    for (const auto axis : {Axis::pp, Axis::replicate, Axis::shard, Axis::cp, Axis::tp})
      text += str(axis == Axis::pp ? "" : ", ", name_of(axis), " ", mesh.layout().coordinate(position, axis));
    return text + ")";
  }

  BatchSource source_;
  DType dtype_;
  double lr_;
  std::vector<ParamInfo> infos_;
  Device device_;
  ParitySide layout_;
  std::optional<ParityAlone> alone_, exact_;  // on world rank 0
  std::vector<std::string> culprits_;
};

}  // namespace

bool LayoutParity::ok() const {
  return std::all_of(comparisons.begin(), comparisons.end(), [](const auto& c) { return c.ok(); });
}

LayoutParity compare_with_one_rank(const Config& config, RankContext& context, std::int64_t steps,
                                   const std::function<void(Engine&)>& spoil) {
  return Comparer(config, context).run(steps, spoil);
}

void check_parity_size(const ModelConfig& model) {
  const auto count = parameter_count(model);
  if (count <= kMostParameters) return;
  auto smaller = model;
  while (smaller.layers > 1 && parameter_count(smaller) > kMostParameters)
    smaller.layers = smaller.layers / 2;
  throw UserError(str(
      "parity trains the whole model on one rank beside the layout, so it takes models of up to ",
      kMostParameters, " parameters, but this one has ", count,
      parameter_count(smaller) > kMostParameters ? std::string("; take a smaller hidden size or vocabulary")
                                                 : str("; --model.layers=", smaller.layers, " fits")));
}

}  // namespace fivefold
