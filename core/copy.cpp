// Host copies happen now, device copies in stream order.
#include "core/copy.h"

#include <cstring>

#include "core/cuda.h"

namespace fivefold {

namespace {
bool on_host(const Tensor& t) { return t.device().kind == DeviceKind::cpu; }
bool nowhere(const Tensor& t) { return t.device().kind == DeviceKind::none; }
}  // namespace

void copy_bytes(const Tensor& dst, const Tensor& src, Stream& stream) {
  FF_CHECK_EQ(dst.bytes(), src.bytes(), "a copy keeps the byte count");
  if (dst.raw() == src.raw()) return;
  if (nowhere(dst)) return;
  if (nowhere(src))
    std::memset(dst.raw(), 0, static_cast<std::size_t>(dst.bytes()));
  else if (on_host(dst) && on_host(src))
    std::memmove(dst.raw(), src.raw(), static_cast<std::size_t>(src.bytes()));
  else
    cuda_copy(dst.raw(), src.raw(), src.bytes(), stream);
}

void repeat_first(const Tensor& tensor, std::int64_t count, Stream& stream) {
  const auto flat = tensor.view({tensor.count()});
  for (auto done = count; done < flat.count();) {
    const auto more = std::min(done, flat.count() - done);
    copy_bytes(flat.slice(done, more), flat.slice(0, more), stream);
    done += more;
  }
}

}  // namespace fivefold
