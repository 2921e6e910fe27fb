// A read-only source of token ids with document bounds. Readers: the native format, llm.c .bin, Megatron
// .bin/.idx, and several files end to end. Sizes and indices are 64-bit; const calls are thread safe.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fivefold {

// What a file says about itself.
struct TokenFileInfo {
  std::string path;
  std::string format;  // "fivefold", "llm.c", "megatron" or "joined"
  std::int64_t tokens = 0;
  std::int64_t vocab = 0;        // ids are below it; 0 where the format does not say
  std::int64_t token_bytes = 0;  // stored width
  std::string tokenizer;         // name; empty where the format does not say
  std::string tokenizer_hash;    // 16 hexadecimal digits, or empty
};

// Where a token lies, for messages.
struct TokenPlace {
  std::string path;
  std::int64_t token = 0;     // index in that file
  std::int64_t document = 0;  // number in that file
  std::int64_t offset = 0;    // tokens from the document's begin
};

class TokenFile {
 public:
  virtual ~TokenFile() = default;
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const TokenFileInfo& info() const { return info_; }
  std::int64_t tokens() const { return info_.tokens; }

  // 16 hexadecimal digits that identify the content; cheap for every size.
  virtual std::string hash() const = 0;
  virtual std::int64_t documents() const = 0;
  // Index of the first token of a document in [0, documents()]; document_begin(documents()) == tokens().
  virtual std::int64_t document_begin(std::int64_t document) const = 0;
  // Appends, ascending and once each, the indices in [first, first + count) at which a document begins.
  virtual void document_starts(std::int64_t first, std::int64_t count,
                               std::vector<std::int64_t>& starts) const;
  virtual TokenPlace place_of(std::int64_t token) const;
  // The stored id, whatever it is.
  virtual std::int64_t stored_token(std::int64_t token) const = 0;
  // Ids [first, first + out.size()), each checked to lie in [0, limit), where limit is the smaller of the
  // file's vocabulary and `vocab` (0: no limit of the caller's). Throws UserError with file, document and
  // offset otherwise.
  virtual void read(std::int64_t first, std::span<std::int32_t> out, std::int64_t vocab) const;
  // Throws UserError with the place unless bounds, ids and stored hash are right. Reads everything.
  virtual void check() const;

  // The document that holds a token in [0, tokens()): binary search.
  std::int64_t document_of(std::int64_t token) const;

 protected:
  explicit TokenFile(TokenFileInfo info) : info_(std::move(info)) {}
  // As read(), unchecked; an id that no int32 holds comes out as -1.
  virtual void copy_tokens(std::int64_t first, std::span<std::int32_t> out) const = 0;
  void check_bounds() const;
  void check_ids() const;

  TokenFileInfo info_;
};

// Opens whichever format the first bytes name; Megatron data by its .bin, its .idx or their common prefix.
// Throws UserError for an empty, truncated or unknown file.
std::shared_ptr<const TokenFile> open_token_file(const std::string& path);

// Several files end to end as one source; a file's end is a document's end. Their tokenizers must agree.
std::shared_ptr<const TokenFile> join_token_files(std::vector<std::shared_ptr<const TokenFile>> parts);

// Throws UserError where both say which tokenizer made them and it is not the same one.
void require_same_tokenizer(const TokenFileInfo& a, const TokenFileInfo& b);

}  // namespace fivefold
