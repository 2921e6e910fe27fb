// Parameters of random numbers, stepped in two ways.
#include "tests/kernels/optim_steps.h"

#include "core/philox.h"
#include "core/transfer.h"

namespace fivefold::cases {

namespace {

// Makes tensors of random numbers, a stream of them each.
class Maker {
 public:
  explicit Maker(const Machine& machine) : machine_(machine) {}
  Tensor normal(std::int64_t n, DType dtype, double size) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = size * philox_normal(3, stream_, i);
    ++stream_;
    return upload(machine_.memory, values, {n}, dtype, Tag::workspace, machine_.stream);
  }
  Tensor zeros(std::int64_t n, DType dtype) {
    return upload(machine_.memory, std::vector<double>(static_cast<std::size_t>(n)), {n}, dtype,
                  Tag::workspace, machine_.stream);
  }
  Tensor empty(std::int64_t n, DType dtype) {
    return fivefold::empty(machine_.memory, {n}, dtype, Tag::workspace, machine_.stream);
  }
  Tensor control(double step) {
    return upload(machine_.memory, std::vector<double>{2, 0.5, 1, step, 0}, {StepControl::kCount}, DType::f64,
                  Tag::workspace, machine_.stream);
  }

 private:
  const Machine& machine_;
  std::uint64_t stream_ = 0;
};

// The state of one parameter with its weight stored in one of the two ways.
AdamW::Part part(Maker& make, std::int64_t n, DType moments, bool split) {
  AdamW::Part out{.weight = {.master = {}, .copy = make.empty(n, DType::bf16), .remainder = {}},
                  .gradient = {},
                  .m = make.zeros(n, moments),
                  .v = make.zeros(n, moments),
                  .weight_decay = 0.1};
  (split ? out.weight.remainder : out.weight.master) = make.empty(n, split ? DType::i16 : DType::f32);
  return out;
}

std::vector<double> master_of(const AdamW::Part& part, Maker& make, const Machine& machine) {
  const auto value = make.empty(part.m.count(), DType::f32);
  machine.backend.run(ReadMaster{.weight = part.weight, .value = value}, machine.stream);
  return to_host(value, machine.stream);
}

AdamW step_of(const AdamW::Part& part, const Tensor& gradient, const Tensor& control) {
  AdamW op{.parts = {part}, .control = control, .lr = 1e-2};
  op.parts.front().gradient = gradient;
  return op;
}

constexpr std::int64_t kElements = 40'000;  // of which 12 a step lie on a tie

void step_both(const Machine& machine, DType moments, Faults& faults) {
  Maker make(machine);
  const auto whole = part(make, kElements, moments, false), halves = part(make, kElements, moments, true);
  const auto initial = make.normal(kElements, DType::f32, 0.1);
  for (const auto* p : {&whole, &halves})
    machine.backend.run(WriteMaster{.value = initial, .weight = p->weight}, machine.stream);
  for (int step = 1; step <= 20; ++step) {
    const auto gradient = make.normal(kElements, DType::f32, 1), control = make.control(step);
    machine.backend.run(step_of(whole, gradient, control), machine.stream);
    machine.backend.run(step_of(halves, gradient, control), machine.stream);
    if (to_host(whole.weight.copy, machine.stream) != to_host(halves.weight.copy, machine.stream))
      faults.push_back(str("the copies differ after step ", step));
    if (master_of(whole, make, machine) != master_of(halves, make, machine))
      faults.push_back(str("the masters differ after step ", step));
  }
  if (master_of(whole, make, machine) == to_host(initial, machine.stream))
    faults.push_back("nothing was changed");
}

std::vector<AdamW::Part> small_parts(Maker& make) {
  std::vector<AdamW::Part> parts;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t n = i % 100 == 7 ? 20'000 + i : i % 37;
    parts.push_back(part(make, n, DType::f32, i % 2 == 0));
    parts.back().gradient = make.normal(n, i % 3 == 0 ? DType::bf16 : DType::f32, 1);
  }
  return parts;
}

void write_masters(const Machine& machine, const std::vector<AdamW::Part>& parts, Maker& make) {
  for (const auto& p : parts)
    machine.backend.run(WriteMaster{.value = make.normal(p.m.count(), DType::f32, 1), .weight = p.weight},
                        machine.stream);
}

}  // namespace

Faults check_split_steps(const Machine& machine) {
  Faults faults;
  for (const auto moments : {DType::f32, DType::bf16}) step_both(machine, moments, faults);
  return faults;
}

Faults check_parts_alone(const Machine& machine) {
  Faults faults;
  Maker make(machine), again(machine);
  const auto together = small_parts(make), alone = small_parts(again);
  write_masters(machine, together, make), write_masters(machine, alone, again);
  const auto count = static_cast<std::int64_t>(together.size());
  SquaredSum all{.parts = {}, .sums = make.zeros(count, DType::f64)};
  const auto sums = make.zeros(count, DType::f64);
  for (std::int64_t i = 0; i < count; ++i) {
    const SquaredSum::Part one{together[static_cast<std::size_t>(i)].gradient, i};
    all.parts.push_back(one);
    machine.backend.run(SquaredSum{.parts = {one}, .sums = sums}, machine.stream);
  }
  machine.backend.run(all, machine.stream);
  if (to_host(all.sums, machine.stream) != to_host(sums, machine.stream)) faults.push_back("sums differ");
  const auto control = make.control(3);
  machine.backend.run(AdamW{.parts = together, .control = control, .lr = 1e-2}, machine.stream);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    machine.backend.run(step_of(alone[i], alone[i].gradient, control), machine.stream);
    if (master_of(together[i], make, machine) != master_of(alone[i], make, machine) ||
        to_host(together[i].v, machine.stream) != to_host(alone[i].v, machine.stream))
      faults.push_back(str("part ", i, " of ", alone[i].m.count(), " elements differs"));
  }
  return faults;
}

}  // namespace fivefold::cases
