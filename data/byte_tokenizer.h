// The byte tokenizer: ids 0 to 255 are the bytes themselves, 256 ends a document. Every text, valid UTF-8 or
// not, comes back byte for byte.
#pragma once
#include "data/tokenizer.h"

namespace fivefold {

class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::int32_t kEndOfDocument = 256;
  static constexpr std::int64_t kVocab = 257;

  std::string name() const override { return "byte"; }
  std::string hash() const override;
  std::int64_t vocab_size() const override { return kVocab; }
  std::int32_t end_of_document() const override { return kEndOfDocument; }
  std::size_t encode_prefix(std::string_view text, bool last, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
};

}  // namespace fivefold
