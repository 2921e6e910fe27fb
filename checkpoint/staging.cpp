// Copies between a device and ordinary host memory; each is complete before the call returns.
#include "checkpoint/staging.h"

#include "core/copy.h"

namespace fivefold {

namespace {

bool on_host(const LocalTensor& tensor) {
  return !tensor.conversion && tensor.data.device().kind == DeviceKind::cpu;
}

Tensor host_tensor_like(const LocalTensor& tensor) {
  CpuStream host;
  return empty(*make_cpu_memory(), tensor.box.shape(), tensor.dtype(), Tag::staging, host);
}

void move(const LocalTensor& tensor, const Tensor& to, const Tensor& from) {
  FF_CHECK(tensor.stream, tensor.name, " is not in host memory and has no stream");
  copy_bytes(to, from, *tensor.stream);
  tensor.stream->synchronize();
}

}  // namespace

Tensor fetched(const LocalTensor& tensor) {
  FF_CHECK(tensor.data || tensor.conversion, tensor.name, " has no data");
  if (on_host(tensor)) return tensor.data;
  const auto host = host_tensor_like(tensor);
  if (tensor.conversion)
    tensor.conversion->read(host);
  else
    move(tensor, host, tensor.data);
  return host;
}

LoadStaging::LoadStaging(std::span<const PieceRead> reads) {
  for (const auto& read : reads)
    if (!on_host(*read.wanted)) ++staged_[read.wanted].reads_left;
}

Tensor LoadStaging::destination(const LocalTensor& wanted) {
  if (on_host(wanted)) return wanted.data;
  auto& host = staged_.at(&wanted).host;
  if (!host) host = host_tensor_like(wanted);
  return host;
}

void LoadStaging::finished(const LocalTensor& wanted) {
  if (on_host(wanted)) return;
  auto& staged = staged_.at(&wanted);
  if (--staged.reads_left > 0) return;
  if (wanted.conversion)
    wanted.conversion->write(staged.host);
  else
    move(wanted, wanted.data, staged.host);
  staged.host = {};
}

}  // namespace fivefold
