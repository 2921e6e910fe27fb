// The project's own token file: a header, the ids at one fixed width, a table of document ends. See
// docs/formats/tokens.md.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "data/mapped_file.h"
#include "data/token_file.h"

namespace fivefold {

// Written to disk, little-endian: do not renumber, do not reorder.
struct NativeHeader {
  std::array<char, 8> magic = {'F', 'F', 'T', 'O', 'K', 'E', 'N', 'S'};
  std::uint32_t version = 1;
  std::uint32_t token_bytes = 0;      // 1, 2 or 4
  std::int64_t vocab = 0;             // ids are below it
  std::int64_t end_of_document = -1;  // the id that ends each document; -1: none
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t tokens_offset = 0;  // byte offsets in the file
  std::int64_t table_offset = 0;   // of documents x i64: one past each document's last token
  std::uint64_t content_hash = 0;  // xxh3 of the token bytes followed by the table's bytes
  std::uint64_t tokenizer_hash = 0;
  std::array<char, 40> tokenizer{};  // name, zero-padded
  std::uint64_t header_hash = 0;     // xxh3 of the 120 bytes before it
};
static_assert(sizeof(NativeHeader) == 128);

// Bytes of a stored id: the narrowest that holds every id. One byte also where the only id above 255 is the
// end-of-document id 256: it is then stored as 0, and told from the id 0 by the table of document ends.
std::uint32_t native_token_bytes(std::int64_t vocab, std::int64_t end_of_document);

// The hash over the header's other fields.
std::uint64_t header_hash(const NativeHeader& header);

bool is_native_file(const MappedFile& file);
// Throws UserError for a header that is damaged, of another version, or at odds with the file's size.
std::shared_ptr<const TokenFile> open_native_file(std::unique_ptr<MappedFile> file);

}  // namespace fivefold
