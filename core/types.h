// Value types every folder speaks: dtypes, bf16, devices, shapes.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace fivefold {

// Written to checkpoints by name, never by number.
enum class DType : std::uint8_t { f64, f32, bf16, i32, u8, i16 };

constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::f64:
      return 8;
    case DType::f32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::i32:
      return 4;
    case DType::u8:
      return 1;
    case DType::i16:
      return 2;
  }
  return 0;
}
std::string_view name_of(DType t);
// Throws UserError for a name that is none of f64, f32, bf16, i32, u8, i16.
DType dtype_from(std::string_view name);
// Where sums, statistics and state live: f64 for f64, else f32.
constexpr DType accum_dtype(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }
inline std::ostream& operator<<(std::ostream& out, DType t) { return out << name_of(t); }

// Storage format: upper half of an f32. Arithmetic happens in float.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  // Round to nearest, ties to even; NaN stays NaN (quiet).
  explicit bf16(float value) {
    auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<std::uint16_t>((u >> 16) | 0x0040u);
    else
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// C++ type -> DType.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, bf16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return DType::i16;
  else
    return DType::u8;
}

// none: tensors of dry runs, which have a size but no bytes.
enum class DeviceKind : std::uint8_t { cpu, cuda, none };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// Extents of a contiguous row-major tensor, outermost first. A default Shape has rank 0 and one element.
class Shape {
 public:
  static constexpr int kMaxRank = 4;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    FF_CHECK(rank_ <= kMaxRank, "rank ", rank_);
    std::copy(dims.begin(), dims.end(), dims_.begin());
  }
  explicit Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    FF_CHECK(rank_ <= kMaxRank, "rank ", rank_);
    std::copy(dims.begin(), dims.end(), dims_.begin());
  }
  int rank() const { return rank_; }
  std::int64_t operator[](int d) const { return dims_[static_cast<std::size_t>(d)]; }
  std::int64_t& operator[](int d) { return dims_[static_cast<std::size_t>(d)]; }
  std::int64_t count() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank_; ++d) n *= (*this)[d];
    return n;
  }
  // Elements behind one index of dim 0.
  std::int64_t row_count() const { return rank_ == 0 ? 1 : tail_count(1); }
  std::int64_t tail_count(int first) const {
    std::int64_t n = 1;
    for (int d = first; d < rank_; ++d) n *= (*this)[d];
    return n;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape);  // [2, 3]

// Smallest multiple of `unit` that is >= n.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }
constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t d) { return (n + d - 1) / d; }

// Calls f(T{}) with the C++ type of a floating dtype.
template <class F>
decltype(auto) with_float(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    default:
      fail(__FILE__, __LINE__, "a floating dtype is needed", std::string(name_of(t)));
  }
}

}  // namespace fivefold
