// Messages of refused operands.
#include "kernels/check.h"

namespace fivefold {

void OperandCheck::refuse(const std::string& what) const { throw Error(str(op_, ": ", what)); }

void OperandCheck::given(std::string_view name, const Tensor& t) {
  require(static_cast<bool>(t), name, " is missing");
  if (!device_) device_ = t.device();
  require(*device_ == t.device(), name, " lies on another device than the first operand");
}

void OperandCheck::is(std::string_view name, const Tensor& t, const Shape& shape, DType dtype) {
  is_one_of(name, t, shape, {dtype});
}

void OperandCheck::is(std::string_view name, const Tensor& t, DType dtype) {
  given(name, t);
  require(t.dtype() == dtype, name, " is ", t.dtype(), ", not ", dtype);
}

void OperandCheck::is_floating(std::string_view name, const Tensor& t) {
  given(name, t);
  const auto dtype = t.dtype();
  require(dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16, name, " is ", dtype,
          ", not floating");
}

void OperandCheck::is_floating(std::string_view name, const Tensor& t, int rank) {
  is_floating(name, t);
  require(t.shape().rank() == rank, name, " is ", t.shape(), ", not of rank ", rank);
}

void OperandCheck::is_one_of(std::string_view name, const Tensor& t, const Shape& shape,
                             std::initializer_list<DType> dtypes) {
  given(name, t);
  require(t.shape() == shape, name, " is ", t.shape(), ", not ", shape);
  const bool known = std::find(dtypes.begin(), dtypes.end(), t.dtype()) != dtypes.end();
  require(known, name, " is ", t.dtype(), ", not ", *dtypes.begin());
}

void OperandCheck::is_absent(std::string_view name, const Tensor& t, std::string_view reason) const {
  require(!t, name, " is given ", reason);
}

double bytes_of(std::initializer_list<const Tensor*> tensors) {
  double bytes = 0;
  for (const auto* t : tensors)
    if (*t) bytes += static_cast<double>(t->bytes());
  return bytes;
}

}  // namespace fivefold
