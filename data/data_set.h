// The sources behind data.train and data.valid.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/token_file.h"

namespace fivefold {

struct Source {
  std::shared_ptr<const TokenFile> file;
  double weight = 1.0;
};

// One entry of a data set: a token file, or a pattern ("part_*.bin") whose matches, in the order of their
// names, lie end to end as one source.
struct SourceSpec {
  std::string path;
  double weight = 0.0;  // share of the samples, relative to the other entries'; 0: none given
  bool operator==(const SourceSpec&) const = default;
};

// "PATH, PATH, ..." or "PATH*WEIGHT, PATH*WEIGHT, ...": what follows the last star is a weight where it is a
// number. Throws UserError for a weight that is not positive and finite.
std::vector<SourceSpec> parse_sources(const std::string& list);

// Without weights all entries lie end to end as one source; with weights each is a source of a mixture and
// repeats its epochs as needed. Throws UserError for no entry at all, weights on some only, a pattern without
// match, files that cannot be opened, and files of different tokenizers.
std::vector<Source> open_data_set(const std::vector<SourceSpec>& specs);

// 16 hexadecimal digits over the sources' contents and relative weights.
std::string hash_of(const std::vector<Source>& sources);

}  // namespace fivefold
