// A contiguous, typed window into a shared Buffer. Copying a Tensor shares its elements; nothing here moves
// data.
#pragma once
#include <span>

#include "core/memory.h"

namespace fivefold {

class Tensor {
 public:
  Tensor() = default;
  // `offset` in bytes from the start of the buffer.
  Tensor(std::shared_ptr<Buffer> buffer, std::int64_t offset, Shape shape, DType dtype);

  explicit operator bool() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  std::int64_t dim(int d) const { return shape_[d]; }
  std::int64_t count() const { return shape_.count(); }
  DType dtype() const { return dtype_; }
  std::int64_t bytes() const { return count() * size_of(dtype_); }
  Device device() const { return buffer_->device(); }
  std::byte* raw() const { return buffer_->data() + offset_; }
  // T must be the element type.
  template <class T>
  T* data() const {
    FF_CHECK(dtype_of<T>() == dtype_, "tensor holds ", dtype_, ", not ", dtype_of<T>());
    return reinterpret_cast<T*>(raw());
  }

  // The same elements under another shape of equal count.
  Tensor view(Shape shape) const;
  // Rows [begin, end) of dim 0.
  Tensor rows(std::int64_t begin, std::int64_t end) const;
  // `count` elements from element `first`, as [count].
  Tensor slice(std::int64_t first, std::int64_t count) const;
  // A tensor of another shape that starts where this one does; it must fit the buffer.
  Tensor extended(Shape shape) const;
  // True when `next` starts where this one ends, in the same buffer and dtype.
  bool precedes(const Tensor& next) const;

 private:
  std::shared_ptr<Buffer> buffer_;
  std::int64_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
};

// One view [sum of rows, ...] over tensors that lie one after another in one buffer; throws where they do
// not.
Tensor joined(std::span<const Tensor> parts);

// Allocates and wraps. Contents are undefined (NaN in a poisoned pool).
Tensor empty(Memory& memory, Shape shape, DType dtype, Tag tag, Stream& home);

}  // namespace fivefold
