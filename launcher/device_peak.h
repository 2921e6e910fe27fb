// Peak rates of known devices, for MFU.
#pragma once
#include <optional>
#include <string_view>

#include "launcher/engine.h"

namespace fivefold {

// Dense operations a second of the device's fastest unit for products in the dtype, by its vendor's
// datasheet: bf16 with f32 sums on tensor cores, f32 and f64 without. `name` as cuda_device_name gives it.
// Nothing for a device or a dtype that is not in the table.
std::optional<double> peak_flops(std::string_view name, DType dtype);

// Of the device and the dtype that an engine computes in.
std::optional<double> peak_flops(const EngineOptions& options);

}  // namespace fivefold
