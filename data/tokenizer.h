// Text to token ids and back. A tokenizer is identified by its hash: token files and checkpoints store it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fivefold {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;
  // 16 hexadecimal digits; equal for tokenizers that map every text alike.
  virtual std::string hash() const = 0;
  // Ids are below it.
  virtual std::int64_t vocab_size() const = 0;
  // The id that ends every document of a token file.
  virtual std::int32_t end_of_document() const = 0;

  // Streaming: appends the ids of the longest prefix of `text` whose ids no later text can change, and
  // returns that prefix's bytes; the caller hands the rest in again with more text behind it. With `last` all
  // of it is encoded.
  virtual std::size_t encode_prefix(std::string_view text, bool last,
                                    std::vector<std::int32_t>& ids) const = 0;
  // Bytes of the ids; an id with no text (the end of a document, an unknown id) gives none.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    encode_prefix(text, true, ids);
    return ids;
  }
};

// By its configuration name ("byte"); throws UserError naming the nearest known one.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

}  // namespace fivefold
