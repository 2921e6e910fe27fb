// The table of datasheet rates behind MFU.
#include "launcher/device_peak.h"

#include <gtest/gtest.h>

namespace fivefold {
namespace {

TEST(DevicePeak, OfTheCardThatTheNameNames) {
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA H200, 139.8 GiB, compute 9.0", DType::bf16).value_or(0), 989.4e12);
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA H200", DType::f32).value_or(0), 66.9e12);
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA H100 80GB HBM3", DType::bf16).value_or(0), 989.4e12);
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA H100 PCIe", DType::bf16).value_or(0), 756e12);
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA A100-SXM4-40GB", DType::bf16).value_or(0), 312e12);
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA L40S", DType::bf16).value_or(0), 362e12)
      << "not the L4 that its name begins with";
  EXPECT_DOUBLE_EQ(peak_flops("NVIDIA A10G", DType::bf16).value_or(0), 70e12);
}

TEST(DevicePeak, NothingWhereItIsNotKnown) {
  EXPECT_EQ(peak_flops("Some card", DType::bf16), std::nullopt);
  EXPECT_EQ(peak_flops("NVIDIA L40S", DType::f64), std::nullopt);
  EXPECT_EQ(peak_flops("NVIDIA L40", DType::bf16), std::nullopt);
  EXPECT_EQ(peak_flops(EngineOptions{}), std::nullopt) << "a CPU";
}

}  // namespace
}  // namespace fivefold
