// Bytes of operands: rounding, guards, copies.
#include "kernels/cases/place.h"

#include <cstring>

#include "core/copy.h"

namespace fivefold::cases {

namespace {

constexpr std::int64_t kGuard = 128;  // bytes on each side
constexpr std::byte kPattern{0xa5};

// Calls f with the C++ element type of a dtype.
template <class F>
decltype(auto) with_element(DType dtype, F&& f) {
  if (dtype == DType::i32) return f(std::int32_t{});
  if (dtype == DType::u8) return f(std::uint8_t{});
  if (dtype == DType::i16) return f(std::int16_t{});
  return with_float(dtype, f);
}

template <class T>
T element_from(double x) {
  if constexpr (std::is_same_v<T, bf16>)
    return bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

template <class T>
double number_from(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return static_cast<double>(static_cast<float>(x));
  else
    return static_cast<double>(x);
}

Tensor host_block(std::int64_t bytes) {
  CpuStream stream;
  return empty(*make_cpu_memory(), {bytes}, DType::u8, Tag::staging, stream);
}

}  // namespace

double rounded_to(DType dtype, double x) {
  return with_element(dtype, [&](auto zero) { return number_from(element_from<decltype(zero)>(x)); });
}

PlacedOperand place(const OperandInfo& info, std::span<const double> numbers, const Machine& machine,
                    Placing placing) {
  const auto width = size_of(info.dtype), front = kGuard + (placing == Placing::guarded ? width : 0);
  FF_CHECK_EQ(static_cast<std::int64_t>(numbers.size()), info.shape.count(), info.name);
  PlacedOperand placed;
  placed.info = &info;
  placed.front = front;
  placed.initial.assign(static_cast<std::size_t>(front + info.shape.count() * width + kGuard), kPattern);
  auto* elements = placed.initial.data() + front;
  if (info.role == Role::output) {
    std::memset(elements, 0xff, numbers.size() * static_cast<std::size_t>(width));
  } else {
    with_element(info.dtype, [&](auto zero) {
      using T = decltype(zero);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const T x = element_from<T>(numbers[i]);
        std::memcpy(elements + i * sizeof(T), &x, sizeof(T));
      }
    });
  }
  const auto bytes = static_cast<std::int64_t>(placed.initial.size());
  auto buffer = machine.memory.allocate(bytes, Tag::workspace, machine.stream);
  placed.block = Tensor(buffer, 0, {bytes}, DType::u8);
  placed.tensor = Tensor(buffer, front, info.shape, info.dtype);
  const auto host = host_block(bytes);
  std::memcpy(host.raw(), placed.initial.data(), placed.initial.size());
  copy_bytes(placed.block, host, machine.stream);
  machine.stream.synchronize();
  return placed;
}

std::vector<std::byte> read_block(const PlacedOperand& operand, const Machine& machine) {
  const auto host = host_block(operand.block.bytes());
  copy_bytes(host, operand.block, machine.stream);
  machine.stream.synchronize();
  return {host.raw(), host.raw() + host.bytes()};
}

std::vector<double> numbers_of(const PlacedOperand& operand, std::span<const std::byte> block) {
  std::vector<double> numbers(static_cast<std::size_t>(operand.info->shape.count()));
  const auto* elements = block.data() + operand.front;
  with_element(operand.info->dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      T x;
      std::memcpy(&x, elements + i * sizeof(T), sizeof(T));
      numbers[i] = number_from(x);
    }
  });
  return numbers;
}

bool guards_whole(const PlacedOperand& operand, std::span<const std::byte> block) {
  const auto front = static_cast<std::size_t>(operand.front);
  const auto is_pattern = [](std::byte b) { return b == kPattern; };
  const auto before = block.first(front), behind = block.last(static_cast<std::size_t>(kGuard));
  return std::all_of(before.begin(), before.end(), is_pattern) &&
         std::all_of(behind.begin(), behind.end(), is_pattern);
}

}  // namespace fivefold::cases
