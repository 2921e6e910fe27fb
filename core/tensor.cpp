// Window arithmetic of tensors.
#include "core/tensor.h"

namespace fivefold {

Tensor::Tensor(std::shared_ptr<Buffer> buffer, std::int64_t offset, Shape shape, DType dtype)
    : buffer_(std::move(buffer)), offset_(offset), shape_(shape), dtype_(dtype) {
  FF_CHECK(offset_ >= 0 && offset_ + bytes() <= buffer_->bytes(), "a tensor of ", bytes(), " bytes at ",
           offset_, " does not fit a buffer of ", buffer_->bytes());
}

Tensor Tensor::view(Shape shape) const {
  FF_CHECK_EQ(shape.count(), count(), "a view keeps the element count");
  return {buffer_, offset_, shape, dtype_};
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t end) const {
  FF_CHECK(shape_.rank() > 0 && 0 <= begin && begin <= end && end <= shape_[0], "rows [", begin, ", ", end,
           ") of ", shape_);
  Shape part = shape_;
  part[0] = end - begin;
  return {buffer_, offset_ + begin * shape_.row_count() * size_of(dtype_), part, dtype_};
}

Tensor Tensor::slice(std::int64_t first, std::int64_t n) const {
  return view({count()}).rows(first, first + n);
}

Tensor Tensor::extended(Shape shape) const { return {buffer_, offset_, shape, dtype_}; }

bool Tensor::precedes(const Tensor& next) const {
  return buffer_ == next.buffer_ && dtype_ == next.dtype_ && offset_ + bytes() == next.offset_;
}

Tensor joined(std::span<const Tensor> parts) {
  FF_CHECK(!parts.empty());
  Shape shape = parts.front().shape();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    FF_CHECK(parts[i - 1].precedes(parts[i]) && parts[i].shape().row_count() == shape.row_count(),
             "joined tensors lie one after another: part ", i, " of shape ", parts[i].shape(),
             " does not follow");
    shape[0] += parts[i].dim(0);
  }
  return parts.front().extended(shape);
}

Tensor empty(Memory& memory, Shape shape, DType dtype, Tag tag, Stream& home) {
  try {
    return {memory.allocate(shape.count() * size_of(dtype), tag, home), 0, shape, dtype};
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error, str("asked for: a tensor ", shape, " of ", dtype));
  }
}

}  // namespace fivefold
