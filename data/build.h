// Text files into token files: one pass, bounded memory, the same bytes for the same inputs and options.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fivefold {

class Tokenizer;

// How the held-out part is chosen.
enum class HoldOut {
  automatic,  // tail for a single .txt without separator, else documents
  documents,  // each document by a keyed hash of (split_seed, its number among the kept ones)
  tail,  // the end of every input file, from the first line feed (or character) behind its share of bytes
};

struct BuildOptions {
  std::vector<std::string> inputs;  // .txt and .jsonl, in this order
  std::string out;
  std::string tokenizer = "byte";
  std::string separator;        // of documents inside .txt files; empty: one document a file
  std::string valid_out;        // held-out file; empty: none
  double valid_fraction = 0.0;  // in (0, 1) where valid_out is given
  HoldOut hold_out = HoldOut::automatic;
  std::uint64_t split_seed = 0;
};

struct BuiltFile {
  std::string path;
  std::int64_t tokens = 0, documents = 0;
};

struct BuildReport {
  BuiltFile train, valid;
  std::int64_t empty_documents = 0;  // skipped
  std::int64_t bytes_read = 0;
};

// Every document gets the tokenizer's end-of-document id behind it; empty ones are skipped and counted. Files
// appear under their names only when whole. Throws UserError for unknown inputs, contradictory options, an
// input that is also an output, no text at all, or a held-out part (or its rest) without a document.
BuildReport build_tokens(const BuildOptions& options);
// The same with a tokenizer of the caller's in place of the one that `options` names.
BuildReport build_tokens(const BuildOptions& options, const Tokenizer& tokenizer);

// True where a document of this number is held out: Philox uniform(seed, "data/held_out", document) <
// fraction.
bool is_held_out(std::uint64_t seed, std::int64_t document, double fraction);

}  // namespace fivefold
