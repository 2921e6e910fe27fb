// Devices, streams and copies on CUDA.
#include <cuda_runtime_api.h>

#include <iomanip>

#include "core/cuda.h"
#include "core/cuda_check.h"

namespace fivefold {

namespace {

class CudaStream final : public Stream {
 public:
  explicit CudaStream(int device) : device_(device) {
    FF_CUDA(cudaSetDevice(device_));
    FF_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaStream() override { cudaStreamDestroy(stream_); }

  Device device() const override { return {DeviceKind::cuda, device_}; }
  Event record() override {
    cudaEvent_t event = nullptr;
    FF_CUDA(cudaSetDevice(device_));
    FF_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    Event out(std::shared_ptr<void>(event, [](void* e) { cudaEventDestroy(static_cast<cudaEvent_t>(e)); }));
    FF_CUDA(cudaEventRecord(event, stream_));
    return out;
  }
  void wait(const Event& event) override {
    if (event.native()) FF_CUDA(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(event.native()), 0));
  }
  void synchronize() override { FF_CUDA(cudaStreamSynchronize(stream_)); }
  bool reached(const Event& event) override {
    if (!event.native()) return true;
    const auto status = cudaEventQuery(static_cast<cudaEvent_t>(event.native()));
    if (status != cudaErrorNotReady) FF_CUDA(status);
    return status == cudaSuccess;
  }
  void await(const Event& event) override {
    if (event.native()) FF_CUDA(cudaEventSynchronize(static_cast<cudaEvent_t>(event.native())));
  }
  void* native() const override { return stream_; }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

int cuda_device_count() {
  int count = 0;  // stays 0 without a driver: the call then fails and leaves it alone
  if (cudaGetDeviceCount(&count) != cudaSuccess) cudaGetLastError();
  return count;
}

std::string cuda_device_name(int device) {
  cudaDeviceProp p{};
  FF_CUDA(cudaGetDeviceProperties(&p, device));
  const double gib = static_cast<double>(p.totalGlobalMem) / (1024.0 * 1024.0 * 1024.0);
  return str(p.name, ", ", gib, " GiB, compute ", p.major, '.', p.minor);
}

std::string cuda_device_uuid(int device) {
  cudaDeviceProp p{};
  FF_CUDA(cudaGetDeviceProperties(&p, device));
  std::ostringstream out;
  out << "GPU-" << std::hex << std::setfill('0');
  for (std::size_t i = 0; i < sizeof(p.uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out << '-';
    out << std::setw(2) << static_cast<int>(static_cast<unsigned char>(p.uuid.bytes[i]));
  }
  return out.str();
}

std::unique_ptr<Stream> make_cuda_stream(int device) { return std::make_unique<CudaStream>(device); }

void cuda_copy(std::byte* dst, const std::byte* src, std::int64_t bytes, Stream& stream) {
  FF_CUDA(cudaMemcpyAsync(dst, src, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                          static_cast<cudaStream_t>(stream.native())));
}

}  // namespace fivefold
