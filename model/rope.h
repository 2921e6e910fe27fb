// Rotary position tables: cos and sin of position x frequency, with the frequency scalings that published
// models use.
#pragma once
#include <vector>

#include "model/config.h"

namespace fivefold {

// Frequencies of the R/2 pairs of a head, theta^(-2i/R), stretched by the config's scaling. Sources: linear
// (Chen et al. 2023), YaRN (Peng et al. 2023), llama3 (the Llama 3.1 model card's rule).
std::vector<double> rope_frequencies(const ModelConfig& config);
// What cos and sin are multiplied by (YaRN's attention factor; 1 otherwise).
double rope_attention_factor(const ModelConfig& config);

struct RopeTables {
  std::vector<double> cos, sin;  // [positions, R/2]
};
RopeTables rope_tables(const ModelConfig& config, std::int64_t positions);

}  // namespace fivefold
