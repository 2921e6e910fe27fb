#include "data/byte_tokenizer.h"

#include "data/content_hash.h"

namespace fivefold {

// Of the definition, as there is no table. Stored in files: the text must not change.
std::string ByteTokenizer::hash() const {
  return hex16(hash_text("fivefold byte tokenizer: 256 bytes, end of document 256"));
}

std::size_t ByteTokenizer::encode_prefix(std::string_view text, bool, std::vector<std::int32_t>& ids) const {
  const std::size_t old = ids.size();
  ids.resize(old + text.size());
  for (std::size_t i = 0; i < text.size(); ++i) ids[old + i] = static_cast<unsigned char>(text[i]);
  return text.size();
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const auto id : ids)
    if (id >= 0 && id < kEndOfDocument) text += static_cast<char>(id);
  return text;
}

}  // namespace fivefold
