// Frequencies and tables in f64, whatever the run computes in.
#include "model/rope.h"

#include <cmath>
#include <numbers>

namespace fivefold {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// Wavelengths beyond the trained context are stretched by `factor`, short ones kept, those between blended.
double llama3(double frequency, const RopeScaling& s) {
  const double wavelength = kTurn / frequency;
  const auto context = static_cast<double>(s.original_context);
  if (wavelength < context / s.high_freq_factor) return frequency;
  if (wavelength > context / s.low_freq_factor) return frequency / s.factor;
  const double keep = (context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - keep) * frequency / s.factor + keep * frequency;
}

// The pair index whose wavelength makes `turns` turns within the trained context.
double yarn_pair(double turns, const ModelConfig& c) {
  const auto dims = static_cast<double>(c.head_dim);
  return dims * std::log(static_cast<double>(c.rope_scaling.original_context) / (turns * kTurn)) /
         (2 * std::log(c.rope_theta));
}

// Fast pairs are kept, slow ones stretched, with a linear ramp over the pair index between.
double yarn(double frequency, std::int64_t pair, const ModelConfig& c) {
  double low = yarn_pair(c.rope_scaling.beta_fast, c), high = yarn_pair(c.rope_scaling.beta_slow, c);
  if (c.rope_scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(c.head_dim - 1));
  if (low == high) high += 0.001;
  const double stretch = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return stretch * frequency / c.rope_scaling.factor + (1 - stretch) * frequency;
}

double scaled(double frequency, std::int64_t pair, const ModelConfig& c) {
  switch (c.rope_scaling.type) {
    case RopeScalingType::none:
      return frequency;
    case RopeScalingType::linear:
      return frequency / c.rope_scaling.factor;
    case RopeScalingType::llama3:
      return llama3(frequency, c.rope_scaling);
    case RopeScalingType::yarn:
      return yarn(frequency, pair, c);
  }
  return frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const ModelConfig& config) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < config.head_dim / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
    out.push_back(scaled(std::pow(config.rope_theta, -exponent), i, config));
  }
  return out;
}

double rope_attention_factor(const ModelConfig& config) {
  const auto& s = config.rope_scaling;
  if (s.type != RopeScalingType::yarn) return 1;
  if (s.attention_factor > 0) return s.attention_factor;
  return s.factor <= 1 ? 1 : 0.1 * std::log(s.factor) + 1;
}

RopeTables rope_tables(const ModelConfig& config, std::int64_t positions) {
  const auto frequencies = rope_frequencies(config);
  const double factor = rope_attention_factor(config);
  RopeTables tables;
  for (std::int64_t p = 0; p < positions; ++p)
    for (double f : frequencies) {
      tables.cos.push_back(factor * std::cos(static_cast<double>(p) * f));
      tables.sin.push_back(factor * std::sin(static_cast<double>(p) * f));
    }
  return tables;
}

}  // namespace fivefold
