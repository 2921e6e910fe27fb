// The build without CUDA: no tensor lies on a device, so nothing here is reached with one.
#include "parallel/comm/device_work.h"

namespace fivefold {

namespace {
[[noreturn]] void absent() { throw Error("this build has no CUDA, so ranks exchange host tensors only"); }
}  // namespace

KeepCurrentDevice::KeepCurrentDevice() = default;
KeepCurrentDevice::~KeepCurrentDevice() = default;
void copy_on_device(std::span<const CopyPart>, Stream&) { absent(); }
void reduce_on_device(const RankOperands&, DType, std::int64_t, Reduce, Stream&) { absent(); }
void give_access(const std::byte*, int, int) { absent(); }

}  // namespace fivefold
