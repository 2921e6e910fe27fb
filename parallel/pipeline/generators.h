// The schedules: GPipe, 1F1B, interleaved 1F1B, and the zero-bubble schedules ZB-H1 and ZB-V.
#pragma once
#include "parallel/pipeline/schedule.h"

namespace fivefold {

enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved, zb_h1, zb_v };
template <>
inline constexpr auto kEnumNames<ScheduleKind> =
    std::to_array<std::string_view>({"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"});

// Compute actions only, for any number of micro-batches; finishes under any costs. `chunks` (virtual stages a
// rank) is 2 for zb-v, anything for interleaved, else 1. With F = I = W = 1, p ranks, m micro-batches, v
// chunks, and memory in stages' worth of one micro-batch's activations:
//   gpipe        bubble (p-1)/(m+p-1)               memory m
//   1f1b         bubble (p-1)/(m+p-1)               memory min(m, p)
//   interleaved  bubble (p-1)/(vm+p-1), m >= p      memory (2(p-1) + (v-1)g + 1)/v at most, g = ceil(m /
//   floor(m/p)) zb-h1        bubble (p-1)/(3m+p-1), m >= p      memory min(m, p) zb-v         bubble
//   (p-1)/(6m+p-1), m >= 2p-2   memory min(m, p)
// (Huang et al. 2019; Narayanan et al. 2019, 2021; Qi et al. 2023, 2024.)
Schedule make_schedule(ScheduleKind kind, int ranks, int chunks, int micro_batches);

}  // namespace fivefold
