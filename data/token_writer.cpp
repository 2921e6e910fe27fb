#include "data/token_writer.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/types.h"

namespace fivefold {
namespace {

std::uint64_t from_hex(const std::string& digits) {
  std::uint64_t value = 0;
  const auto end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value, 16);
  FF_CHECK(result.ec == std::errc() && result.ptr == end, "no hexadecimal hash: ", digits);
  return value;
}

NativeHeader header_for(const TokenFileIdentity& identity) {
  NativeHeader header;
  header.token_bytes = native_token_bytes(identity.vocab, identity.end_of_document);
  header.vocab = identity.vocab;
  header.end_of_document = identity.end_of_document;
  header.tokens_offset = sizeof(NativeHeader);
  header.tokenizer_hash = from_hex(identity.tokenizer_hash);
  FF_CHECK(identity.tokenizer.size() <= header.tokenizer.size(), identity.tokenizer);
  std::copy(identity.tokenizer.begin(), identity.tokenizer.end(), header.tokenizer.begin());
  return header;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

TokenWriter::TokenWriter(const std::string& path, const TokenFileIdentity& identity)
    : header_(header_for(identity)), file_(path), ends_(path + ".ends") {
  file_.append(bytes_of(header_));
}

template <class Stored>
void TokenWriter::store(std::span<const std::int32_t> ids) {
  staging_.resize(ids.size() * sizeof(Stored));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto stored = static_cast<Stored>(ids[i]);  // id 256 in one byte becomes 0: docs/formats/tokens.md
    std::memcpy(staging_.data() + i * sizeof stored, &stored, sizeof stored);
  }
  hash_.add(staging_);
  file_.append(staging_);
}

void TokenWriter::append(std::span<const std::int32_t> ids) {
  std::uint32_t largest = 0;
  for (const auto id : ids) largest = std::max(largest, static_cast<std::uint32_t>(id));
  const std::int64_t limit =
      header_.token_bytes == 1 ? std::min<std::int64_t>(header_.vocab, 256) : header_.vocab;
  FF_CHECK(ids.empty() || largest < limit, "id ", largest, ", ids inside a document are below ", limit);
  put(ids);
}

void TokenWriter::put(std::span<const std::int32_t> ids) {
  if (header_.token_bytes == 1) store<std::uint8_t>(ids);
  if (header_.token_bytes == 2) store<std::uint16_t>(ids);
  if (header_.token_bytes == 4) store<std::uint32_t>(ids);
  header_.tokens += static_cast<std::int64_t>(ids.size());
}

void TokenWriter::end_document() {
  FF_CHECK(header_.tokens > table_tokens_, "document ", header_.documents, " has no token");
  const auto id = static_cast<std::int32_t>(header_.end_of_document);
  if (id >= 0) put(std::span(&id, 1));
  table_tokens_ = header_.tokens;
  ends_.append(bytes_of(table_tokens_));
  ++header_.documents;
}

void TokenWriter::append_table() {
  std::vector<std::byte> block(1 << 20);
  const std::int64_t size = ends_.size();
  for (std::int64_t offset = 0; offset < size;) {
    const auto part =
        std::span(block).first(static_cast<std::size_t>(std::min<std::int64_t>(size - offset, 1 << 20)));
    ends_.read_back(offset, part);
    hash_.add(part);
    file_.append(part);
    offset += static_cast<std::int64_t>(part.size());
  }
}

void TokenWriter::commit() {
  FF_CHECK(header_.documents > 0 && table_tokens_ == header_.tokens, header_.documents,
           " documents, the last is open");
  header_.table_offset = round_up(file_.size(), 8);
  const std::uint64_t zero = 0;
  file_.append(bytes_of(zero).first(static_cast<std::size_t>(header_.table_offset - file_.size())));
  append_table();
  header_.content_hash = hash_.value();
  header_.header_hash = header_hash(header_);
  file_.overwrite(0, bytes_of(header_));
  file_.commit();
}

}  // namespace fivefold
