#include "data/trace.h"

#include <algorithm>

#include "core/error.h"

namespace fivefold {
namespace {

// "  document 12 of x.tokens: its tokens [300, 512) at rows [0, 212)" for each stretch of [first, first +
// length).
std::string document_lines(const TokenFile& file, std::int64_t first, std::int64_t length) {
  std::vector<std::int64_t> starts;
  file.document_starts(first + 1, length - 1, starts);
  starts.insert(starts.begin(), first);
  starts.push_back(first + length);
  std::string text;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    const auto place = file.place_of(starts[s]);
    const std::int64_t size = starts[s + 1] - starts[s];
    text += str("  document ", place.document, " of ", place.path, ": its tokens [", place.offset, ", ",
                place.offset + size, ") at rows [", starts[s] - first, ", ", starts[s + 1] - first, ")\n");
  }
  return text;
}

}  // namespace

std::string trace_text(const Sampler& sampler, std::int64_t first_sample, std::int64_t count) {
  const std::int64_t length = sampler.options().sequence;
  std::string text;
  for (std::int64_t i = first_sample; i < first_sample + count; ++i) {
    const auto place = sampler.locate(i);
    const std::int64_t first = place.sample * length;
    text +=
        str("sample ", i, ": epoch ", place.epoch, ", source ", place.source, ", its sample ", place.sample,
            ", tokens [", first, ", ", first + length, "], ", sampler.valid_targets(i, 1), " targets\n");
    text += document_lines(*sampler.sources()[static_cast<std::size_t>(place.source)].file, first, length);
  }
  return text;
}

}  // namespace fivefold
