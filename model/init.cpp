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

RandomNormal initial_values(const Param& param, const ModelConfig& config, const InitOptions& options,
                            const Box& box, const Tensor& x) {
  FF_CHECK(param.global.rank() <= 2, param.name, " has rank ", param.global.rank());
  const auto [mean, spread] = distribution_of(param, config, options);
  const bool matrix = param.global.rank() == 2;
  const auto rows = box.end[0] - box.begin[0], columns = matrix ? box.end[1] - box.begin[1] : 1;
  const auto stride = matrix ? param.global[1] : 1;
  return {.x = x.view({rows, columns}),
          .seed = options.seed,
          .sequence = hash_name(param.name),
          .first = box.begin[0] * stride + (matrix ? box.begin[1] : 0),
          .stride = stride,
          .mean = mean,
          .spread = spread};
}

}  // namespace fivefold
