#include "data/native_file.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/types.h"
#include "data/content_hash.h"
#include "data/stored_ids.h"

namespace fivefold {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::int64_t kTableEntryBytes = 8;

std::string tokenizer_name(const NativeHeader& header) {
  const auto end = std::find(header.tokenizer.begin(), header.tokenizer.end(), '\0');
  return {header.tokenizer.begin(), end};
}

// Throws unless the header is whole and the file is exactly as long as it says.
NativeHeader checked_header(const MappedFile& file) {
  const auto& path = file.path();
  if (file.size() < static_cast<std::int64_t>(sizeof(NativeHeader)))
    throw UserError(str("'", path, "' is truncated: ", file.size(), " bytes, its header alone has ",
                        sizeof(NativeHeader)));
  const auto header = file.get<NativeHeader>(0);
  if (header.version != kVersion)
    throw UserError(str("'", path, "' has token file version ", header.version,
                        ", this program reads version ", kVersion));
  if (header_hash(header) != header.header_hash)
    throw UserError(str("'", path, "' has a damaged header: its hash is ", hex16(header_hash(header)),
                        ", but it stores ", hex16(header.header_hash)));
  const std::int64_t width = header.token_bytes;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 16;
  const bool sane =
      (width == 1 || width == 2 || width == 4) && header.tokens > 0 && header.tokens < kMost &&
      header.documents > 0 && header.documents <= header.tokens &&
      header.tokens_offset == static_cast<std::int64_t>(sizeof(NativeHeader)) &&
      header.table_offset == round_up(header.tokens_offset + header.tokens * width, kTableEntryBytes);
  if (!sane) throw UserError(str("'", path, "' has a header whose sizes contradict each other"));
  const std::int64_t expected = header.table_offset + header.documents * kTableEntryBytes;
  if (file.size() != expected)
    throw UserError(str("'", path, "' is ", file.size() < expected ? "truncated" : "too long", ": ",
                        file.size(), " bytes, its header says ", expected));
  return header;
}

TokenFileInfo info_of(const NativeHeader& header, const std::string& path) {
  return {.path = path,
          .format = "fivefold",
          .tokens = header.tokens,
          .vocab = header.vocab,
          .token_bytes = header.token_bytes,
          .tokenizer = tokenizer_name(header),
          .tokenizer_hash = hex16(header.tokenizer_hash)};
}

class NativeFile final : public TokenFile {
 public:
  NativeFile(std::unique_ptr<MappedFile> file, const NativeHeader& header)
      : TokenFile(info_of(header, file->path())), file_(std::move(file)), header_(header) {
    if (document_begin(header_.documents) != header_.tokens)
      throw UserError(str("'", info_.path, "' has a damaged document table: it ends at token ",
                          document_begin(header_.documents), " of ", header_.tokens));
  }

  std::string hash() const override { return hex16(header_.header_hash); }
  std::int64_t documents() const override { return header_.documents; }
  std::int64_t document_begin(std::int64_t document) const override {
    if (document == 0) return 0;
    return file_->get<std::int64_t>(header_.table_offset + (document - 1) * kTableEntryBytes);
  }
  std::int64_t stored_token(std::int64_t token) const override {
    if (end_is_implied()) {
      std::int32_t id = 0;
      copy_tokens(token, std::span(&id, 1));
      return id;
    }
    return stored_id(*file_, header_.tokens_offset, kind(), token);
  }
  void check() const override {
    const auto whole = file_->bytes(0, file_->size());
    const auto part = [&](std::int64_t offset, std::int64_t size) {
      return whole.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
    };
    StreamHash found;
    found.add(part(header_.tokens_offset, header_.tokens * header_.token_bytes));
    found.add(part(header_.table_offset, header_.documents * kTableEntryBytes));
    if (found.value() != header_.content_hash)
      throw UserError(str("'", info_.path, "' is damaged: its content has the hash ", hex16(found.value()),
                          ", but it stores ", hex16(header_.content_hash)));
    TokenFile::check();
  }

 protected:
  void copy_tokens(std::int64_t first, std::span<std::int32_t> out) const override {
    copy_ids(*file_, header_.tokens_offset, kind(), first, out);
    if (end_is_implied()) restore_ends(first, out);
  }

 private:
  bool end_is_implied() const { return header_.token_bytes == 1 && header_.end_of_document > 255; }
  IdKind kind() const {
    return header_.token_bytes == 1 ? IdKind::u8 : header_.token_bytes == 2 ? IdKind::u16 : IdKind::u32;
  }
  void restore_ends(std::int64_t first, std::span<std::int32_t> out) const {
    const auto count = static_cast<std::int64_t>(out.size());
    if (count == 0) return;
    for (std::int64_t d = document_of(first); d < header_.documents; ++d) {
      const std::int64_t last = document_begin(d + 1) - 1 - first;
      if (last >= count) return;
      if (last < 0) continue;  // only a damaged table has these
      out[static_cast<std::size_t>(last)] = static_cast<std::int32_t>(header_.end_of_document);
    }
  }

  std::unique_ptr<MappedFile> file_;
  NativeHeader header_;
};

}  // namespace

std::uint32_t native_token_bytes(std::int64_t vocab, std::int64_t end_of_document) {
  if (vocab <= 256 || (vocab == 257 && end_of_document == 256)) return 1;
  return vocab <= 65536 ? 2 : 4;
}

std::uint64_t header_hash(const NativeHeader& header) {
  return hash_bytes(std::as_bytes(std::span(&header, 1)).first(offsetof(NativeHeader, header_hash)));
}

bool is_native_file(const MappedFile& file) {
  const auto magic = NativeHeader{}.magic;
  const auto given =
      file.bytes(0, std::min<std::int64_t>(file.size(), static_cast<std::int64_t>(magic.size())));
  return given.size() == magic.size() && std::memcmp(given.data(), magic.data(), magic.size()) == 0;
}

std::shared_ptr<const TokenFile> open_native_file(std::unique_ptr<MappedFile> file) {
  const auto header = checked_header(*file);
  return std::make_shared<NativeFile>(std::move(file), header);
}

}  // namespace fivefold
