#include "data/megatron_file.h"

#include <array>
#include <string_view>

#include "core/error.h"
#include "data/content_hash.h"
#include "data/mapped_file.h"
#include "data/stored_ids.h"

namespace fivefold {
namespace {

using namespace std::string_view_literals;
constexpr std::string_view kMagic = "MMIDIDX\0\0"sv;
constexpr std::int64_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kEntriesAt = 26, kLengthsAt = 34;

IdKind kind_of(const MappedFile& index) {
  switch (index.get<std::uint8_t>(kTypeAt)) {
    case 1:
      return IdKind::u8;
    case 2:
      return IdKind::i8;
    case 3:
      return IdKind::i16;
    case 4:
      return IdKind::i32;
    case 5:
      return IdKind::i64;
    case 8:
      return IdKind::u16;
    default:
      throw UserError(str("'", index.path(), "' has element type ", int{index.get<std::uint8_t>(kTypeAt)},
                          ", which is no integer: known are 1, 2, 3, 4, 5 and 8"));
  }
}

// Where the three tables of an index lie. Throws unless the file is long enough for them.
struct Layout {
  std::int64_t sequences, entries, offsets_at, documents_at;
  explicit Layout(const MappedFile& index) {
    if (index.size() < kLengthsAt)
      throw UserError(str("'", index.path(), "' is truncated: ", index.size(),
                          " bytes, its header alone has ", kLengthsAt));
    const auto version = index.get<std::uint64_t>(kVersionAt);
    if (version != 1)
      throw UserError(str("'", index.path(), "' has index version ", version, ", known is version 1"));
    sequences = index.get<std::int64_t>(kSequencesAt);
    entries = index.get<std::int64_t>(kEntriesAt);
    offsets_at = kLengthsAt + sequences * 4;
    documents_at = offsets_at + sequences * 8;
    const bool possible =
        sequences > 0 && entries > 1 && sequences <= index.size() / 12 && entries <= index.size() / 8;
    if (!possible)
      throw UserError(str("'", index.path(), "' cannot hold ", sequences, " sequences and ", entries,
                          " entries of the document table in ", index.size(), " bytes"));
    const std::int64_t expected = documents_at + entries * 8;
    if (index.size() < expected)
      throw UserError(
          str("'", index.path(), "' is truncated: ", index.size(), " bytes, its header says ", expected));
  }
};

class MegatronFile final : public TokenFile {
 public:
  MegatronFile(std::unique_ptr<MappedFile> index, std::unique_ptr<MappedFile> data)
      : TokenFile(TokenFileInfo{}),
        index_(std::move(index)),
        data_(std::move(data)),
        layout_(*index_),
        kind_(kind_of(*index_)) {
    info_.path = data_->path();
    info_.format = "megatron";
    info_.token_bytes = size_of(kind_);
    info_.tokens = checked_tokens();
    const std::int64_t first = entry(0), last = entry(layout_.entries - 1);
    if (first != 0 || last != layout_.sequences)
      throw UserError(str("'", index_->path(), "' has documents from sequence ", first, " to ", last,
                          ", but must have them from 0 to ", layout_.sequences));
    if (info_.tokens == 0) throw UserError(str("'", info_.path, "' holds no token"));
  }

  std::string hash() const override {
    const std::array<std::uint64_t, 2> both = {sampled_hash(*index_), sampled_hash(*data_)};
    return hex16(hash_bytes(std::as_bytes(std::span(both))));
  }
  std::int64_t documents() const override { return layout_.entries - 1; }
  std::int64_t document_begin(std::int64_t document) const override {
    const std::int64_t sequence = entry(document);
    if (sequence < 0 || sequence > layout_.sequences)
      throw UserError(str("'", index_->path(), "' begins document ", document, " at sequence ", sequence,
                          " of ", layout_.sequences));
    return sequence == layout_.sequences ? tokens() : offset_of(sequence) / size_of(kind_);
  }
  std::int64_t stored_token(std::int64_t token) const override { return stored_id(*data_, 0, kind_, token); }

 protected:
  void copy_tokens(std::int64_t first, std::span<std::int32_t> out) const override {
    copy_ids(*data_, 0, kind_, first, out);
  }

 private:
  std::int64_t entry(std::int64_t d) const { return index_->get<std::int64_t>(layout_.documents_at + d * 8); }
  std::int64_t length_of(std::int64_t s) const { return index_->get<std::int32_t>(kLengthsAt + s * 4); }
  std::int64_t offset_of(std::int64_t s) const {
    return index_->get<std::int64_t>(layout_.offsets_at + s * 8);
  }

  // Sum of the lengths, after checking that the sequences lie end to end and fill the data file.
  std::int64_t checked_tokens() const {
    std::int64_t bytes = 0;
    for (std::int64_t s = 0; s < layout_.sequences; ++s) {
      if (offset_of(s) != bytes || length_of(s) < 0)
        throw UserError(str("'", index_->path(), "': sequence ", s, " has ", length_of(s), " tokens at byte ",
                            offset_of(s),
                            ", but sequences must lie end to end and the one before ends at byte ", bytes));
      bytes += length_of(s) * size_of(kind_);
    }
    if (bytes != data_->size())
      throw UserError(str("'", info_.path, "' is ", data_->size() < bytes ? "truncated" : "too long", ": ",
                          data_->size(), " bytes, its index says ", bytes));
    return bytes / size_of(kind_);
  }

  std::unique_ptr<MappedFile> index_, data_;
  Layout layout_;
  IdKind kind_;
};

}  // namespace

bool is_megatron_index(const std::string& path) {
  if (!file_exists(path)) return false;
  const MappedFile file(path);
  const auto size = static_cast<std::int64_t>(kMagic.size());
  return file.size() >= size && std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

std::shared_ptr<const TokenFile> open_megatron_file(const std::string& prefix) {
  return std::make_shared<MegatronFile>(std::make_unique<MappedFile>(prefix + ".idx"),
                                        std::make_unique<MappedFile>(prefix + ".bin"));
}

}  // namespace fivefold
