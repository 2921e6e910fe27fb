// Fills operands: a run of numbers from the host, then copies that double what is there.
#include "kernels/cases/timing.h"

#include "core/copy.h"
#include "core/transfer.h"

namespace fivefold::cases {

namespace {

// Odd, so that rows of common widths start at different numbers.
constexpr std::int64_t kRun = (1 << 16) - 1;

void write_integers(const OperandInfo& info, const Tensor& to, Stream& stream) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < to.count(); ++i) values.push_back(static_cast<std::int32_t>(info.value(i)));
  write(to, values, stream);
}

void write_floats(const OperandInfo& info, const Tensor& to, Stream& stream) {
  const auto count = std::min(kRun, to.count());
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(info.value(i));
  write(to.view({to.count()}).slice(0, count), values, stream);
  repeat_first(to, count, stream);
}

}  // namespace

Tensor place_for_timing(const OperandInfo& info, const Machine& machine) {
  const auto tensor = empty(machine.memory, info.shape, info.dtype, Tag::workspace, machine.stream);
  if (info.role == Role::output) return tensor;
  if (info.dtype == DType::i32)
    write_integers(info, tensor, machine.stream);
  else
    write_floats(info, tensor, machine.stream);
  return tensor;
}

}  // namespace fivefold::cases
