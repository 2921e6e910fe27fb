// What must agree to the last bit in the optimizer's ops, on a CUDA device.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "kernels/cuda_backend.h"
#include "tests/kernels/optim_steps.h"

namespace fivefold::cases {
namespace {

class GpuOptim : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    stream_ = make_cuda_stream(0);
    memory_ = make_cuda_memory(0, {.poison = true});
    backend_ = make_cuda_backend(0);
  }
  Machine machine() { return {*backend_, *memory_, *stream_}; }

 private:
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<Memory> memory_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(GpuOptim, SplitMastersAreMastersToTheLastBit) {
  for (const auto& fault : check_split_steps(machine())) ADD_FAILURE() << fault;
}

TEST_F(GpuOptim, PartsDoNotDependOnEachOther) {
  for (const auto& fault : check_parts_alone(machine())) ADD_FAILURE() << fault;
}

}  // namespace
}  // namespace fivefold::cases
