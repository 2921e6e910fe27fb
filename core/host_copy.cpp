// One copy in stream order and the event behind it.
#include "core/host_copy.h"

#include "core/copy.h"

namespace fivefold {

HostCopy::HostCopy(const Tensor& source, Memory& host, Stream& stream)
    : copy_(empty(host, source.shape(), DType::f64, Tag::staging, stream)) {
  FF_CHECK_EQ(source.dtype(), DType::f64);
  copy_bytes(copy_, source, stream);
  if (stream.native() == nullptr) return;
  stream_ = &stream;
  done_ = stream.record();
}

std::vector<double> HostCopy::values() const {
  if (!copy_) return {};
  if (stream_) stream_->await(done_);
  const auto* first = copy_.data<double>();
  return {first, first + copy_.count()};
}

}  // namespace fivefold
