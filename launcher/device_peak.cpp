// One row a card; the first whose name is found in the device's.
#include "launcher/device_peak.h"

#include <array>
#include <cctype>

#include "core/cuda.h"

namespace fivefold {

namespace {

struct Card {
  std::string_view name;
  double bf16, f32, f64;  // TFLOP/s; 0: not known here
};

// NVIDIA's datasheets, without sparsity. GeForce cards sum bf16 products in f32 at half their f16 rate.
constexpr std::array<Card, 14> kCards{{{"H200 NVL", 835, 60, 30},
                                       {"H200", 989.4, 66.9, 33.5},
                                       {"H100 NVL", 835, 60, 30},
                                       {"H100 PCIe", 756, 51.2, 25.6},
                                       {"H100", 989.4, 66.9, 33.5},
                                       {"H800", 989.4, 66.9, 0},
                                       {"A100", 312, 19.5, 9.7},
                                       {"A800", 312, 19.5, 9.7},
                                       {"L40S", 362, 91.6, 0},
                                       {"L4", 121, 30.3, 0},
                                       {"A10G", 70, 31.2, 0},
                                       {"A10", 125, 31.2, 0},
                                       {"RTX 4090", 165.2, 82.6, 0},
                                       {"RTX 3090", 71, 35.6, 0}}};

// Whole words: an L40 is no L4.
bool names(std::string_view device, std::string_view card) {
  const auto at = device.find(card);
  if (at == std::string_view::npos) return false;
  const auto end = at + card.size();
  return end == device.size() || !std::isalnum(static_cast<unsigned char>(device[end]));
}

}  // namespace

std::optional<double> peak_flops(std::string_view name, DType dtype) {
  for (const auto& card : kCards) {
    if (!names(name, card.name)) continue;
    const double peak = dtype == DType::bf16 ? card.bf16 : dtype == DType::f32 ? card.f32 : card.f64;
    return peak > 0 ? std::optional(peak * 1e12) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> peak_flops(const EngineOptions& options) {
  if (options.device.kind != DeviceKind::cuda) return std::nullopt;
  return peak_flops(cuda_device_name(options.device.index), options.dtype);
}

}  // namespace fivefold
