// Standard deviations by name, values by global index.
#include "model/init.h"

#include <cmath>

#include "core/philox.h"

namespace fivefold {

namespace {

bool ends_with(const std::string& name, std::string_view tail) {
  return name.size() >= tail.size() && name.compare(name.size() - tail.size(), tail.size(), tail) == 0;
}

// Mean and spread of a parameter's elements.
struct Distribution {
  double mean = 0, spread = 0;
};

Distribution distribution_of(const Param& param, const ModelConfig& config, const InitOptions& options) {
  if (param.global.rank() == 1) {
    const bool bias = ends_with(param.name, ".bias");
    return {bias ? 0.0 : 1.0, options.one_dimensional_noise};
  }
  const bool residual = ends_with(param.name, "out.weight") || ends_with(param.name, "down.weight");
  const double shrink = residual ? std::sqrt(2.0 * static_cast<double>(config.layers)) : 1.0;
  return {0.0, config.init_std / shrink};
}

}  // namespace

void initial_values(const Param& param, const ModelConfig& config, const InitOptions& options, const Box& box,
                    std::span<double> out) {
  FF_CHECK(param.global.rank() <= 2, param.name, " has rank ", param.global.rank());
  const auto [mean, spread] = distribution_of(param, config, options);
  const auto stream = hash_name(param.name);
  const bool matrix = param.global.rank() == 2;
  const auto columns = matrix ? param.global[1] : 1;
  const auto first = matrix ? box.begin[1] : 0, end = matrix ? box.end[1] : 1;
  std::size_t at = 0;
  for (auto row = box.begin[0]; row < box.end[0]; ++row)
    for (auto column = first; column < end; ++column, ++at) {
      const auto index = static_cast<std::uint64_t>(row * columns + column);
      out[at] = spread == 0 ? mean : mean + spread * philox_normal(options.seed, stream, index);
    }
  FF_CHECK_EQ(at, out.size());
}

}  // namespace fivefold
