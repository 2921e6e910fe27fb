// How ops check their operands: every message names the op, the operand and the two values that disagree.
#pragma once
#include <initializer_list>
#include <optional>

#include "core/tensor.h"

namespace fivefold {

// One per check() call; also holds all operands to the device of the first.
class OperandCheck {
 public:
  explicit OperandCheck(std::string_view op) : op_(op) {}

  // Throws Error unless the operand is given and has ...
  void is(std::string_view name, const Tensor& t, const Shape& shape, DType dtype);
  void is(std::string_view name, const Tensor& t, DType dtype);        // ... this dtype, any shape
  void is_floating(std::string_view name, const Tensor& t);            // ... a floating dtype
  void is_floating(std::string_view name, const Tensor& t, int rank);  // ... a floating dtype and this rank
  void is_one_of(std::string_view name, const Tensor& t, const Shape& shape,
                 std::initializer_list<DType> dtypes);
  // Throws Error if an operand is given that the op cannot use.
  void is_absent(std::string_view name, const Tensor& t, std::string_view reason) const;
  // Throws Error unless the condition of the op holds.
  template <class... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (!condition) refuse(str(parts...));
  }

 private:
  void given(std::string_view name, const Tensor& t);
  [[noreturn]] void refuse(const std::string& what) const;

  std::string_view op_;
  std::optional<Device> device_;
};

// Bytes of the operands that are given.
double bytes_of(std::initializer_list<const Tensor*> tensors);

}  // namespace fivefold
