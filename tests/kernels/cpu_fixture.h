// A CPU backend with tensors made from and read as plain numbers, for tests that are no single case of an op.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "core/philox.h"
#include "kernels/backend.h"
#include "kernels/cases/place.h"

namespace fivefold {

class CpuFixture : public testing::Test {
 protected:
  using Numbers = std::vector<double>;

  Tensor tensor(const Shape& shape, DType dtype) {
    return empty(*memory_, shape, dtype, Tag::workspace, stream_);
  }
  Tensor tensor(const Shape& shape, DType dtype, const Numbers& numbers) {
    const auto t = tensor(shape, dtype);
    FF_CHECK_EQ(t.count(), static_cast<std::int64_t>(numbers.size()));
    for (std::int64_t i = 0; i < t.count(); ++i) put(t, i, numbers[static_cast<std::size_t>(i)]);
    return t;
  }
  Tensor filled(const Shape& shape, DType dtype, double x) {
    return tensor(shape, dtype, Numbers(static_cast<std::size_t>(shape.count()), x));
  }
  // Standard normal numbers times `size`.
  Tensor normal(const Shape& shape, DType dtype, double size, std::uint64_t stream) {
    Numbers numbers(static_cast<std::size_t>(shape.count()));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = size * philox_normal(1, stream, i);
    return tensor(shape, dtype, numbers);
  }
  // The same numbers in another dtype.
  Tensor converted(const Tensor& t, DType dtype) { return tensor(t.shape(), dtype, numbers(t)); }

  static Numbers numbers(const Tensor& t) {
    Numbers all;
    for (std::int64_t i = 0; i < t.count(); ++i) all.push_back(get(t, i));
    return all;
  }
  static double largest_difference(const Tensor& a, const Tensor& b) {
    double most = 0;
    for (std::int64_t i = 0; i < a.count(); ++i) most = std::max(most, std::abs(get(a, i) - get(b, i)));
    return most;
  }
  static double get(const Tensor& t, std::int64_t i) {
    switch (t.dtype()) {
      case DType::f64:
        return t.data<double>()[i];
      case DType::f32:
        return static_cast<double>(t.data<float>()[i]);
      case DType::bf16:
        return static_cast<double>(t.data<bf16>()[i]);
      case DType::i32:
        return t.data<std::int32_t>()[i];
      default:
        return t.data<std::uint8_t>()[i];
    }
  }
  static void put(const Tensor& t, std::int64_t i, double x) {
    switch (t.dtype()) {
      case DType::f64:
        t.data<double>()[i] = x;
        break;
      case DType::f32:
        t.data<float>()[i] = static_cast<float>(x);
        break;
      case DType::bf16:
        t.data<bf16>()[i] = bf16(static_cast<float>(x));
        break;
      case DType::i32:
        t.data<std::int32_t>()[i] = static_cast<std::int32_t>(x);
        break;
      default:
        t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(x);
    }
  }

  template <class Op>
  void run(const Op& op) {
    backend_->run(op, stream_);
  }
  cases::Machine machine() { return {*backend_, *memory_, stream_}; }

  CpuStream stream_;
  std::shared_ptr<Memory> memory_ = make_cpu_memory({.poison = true});
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 2});
};

}  // namespace fivefold
