// What a run reads, as text: one line a sample, one a document inside it.
#pragma once
#include <cstdint>
#include <string>

#include "data/sampler.h"

namespace fivefold {

// Samples [first_sample, first_sample + count) of the run: epoch, source, tokens, and the span of each
// document.
std::string trace_text(const Sampler& sampler, std::int64_t first_sample, std::int64_t count);

}  // namespace fivefold
