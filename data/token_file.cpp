#include "data/token_file.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "data/llmc_file.h"
#include "data/mapped_file.h"
#include "data/megatron_file.h"
#include "data/native_file.h"

namespace fivefold {
namespace {

constexpr std::int64_t kScanTokens = 1 << 20;  // tokens in memory at a time while everything is read

[[noreturn]] void refuse_id(const TokenFile& file, std::int64_t token, std::int64_t limit) {
  const auto place = file.place_of(token);
  throw UserError(str(place.path, ": document ", place.document, ", offset ", place.offset, " (token ",
                      place.token, "): id ", file.stored_token(token),
                      " is outside the vocabulary, ids are 0 to ", limit - 1));
}

bool ends_with(const std::string& text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string first_bytes(const MappedFile& file) {
  std::string shown;
  for (const auto byte : file.bytes(0, std::min<std::int64_t>(file.size(), 8))) {
    const auto c = static_cast<char>(byte);
    shown += c >= ' ' && c <= '~' ? c : '.';
  }
  return shown;
}

}  // namespace

std::int64_t TokenFile::document_of(std::int64_t token) const {
  FF_CHECK(token >= 0 && token < tokens(), info_.path, ": token ", token, " of ", tokens());
  std::int64_t low = 0, high = documents();  // begin(low) <= token < begin(high)
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (document_begin(middle) <= token ? low : high) = middle;
  }
  return low;
}

void TokenFile::document_starts(std::int64_t first, std::int64_t count,
                                std::vector<std::int64_t>& starts) const {
  if (count <= 0) return;
  const std::int64_t end = first + count;
  std::int64_t document = document_of(first);
  std::int64_t previous = first - 1;
  if (document_begin(document) < first) ++document;
  for (; document < documents(); ++document) {
    const std::int64_t begin = document_begin(document);
    if (begin >= end) return;
    if (begin > previous) starts.push_back(begin);  // documents without tokens begin where the next one does
    previous = std::max(previous, begin);
  }
}

TokenPlace TokenFile::place_of(std::int64_t token) const {
  const std::int64_t document = document_of(token);
  return {info_.path, token, document, token - document_begin(document)};
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> out, std::int64_t vocab) const {
  const auto count = static_cast<std::int64_t>(out.size());
  FF_CHECK(first >= 0 && first <= tokens() - count, info_.path, ": tokens [", first, ", +", count, ") of ",
           tokens());
  copy_tokens(first, out);
  std::int64_t limit = std::int64_t{1} << 31;
  if (info_.vocab > 0) limit = std::min(limit, info_.vocab);
  if (vocab > 0) limit = std::min(limit, vocab);
  std::uint32_t largest = 0;  // negative ids count as the largest
  for (const auto id : out) largest = std::max(largest, static_cast<std::uint32_t>(id));
  if (largest < static_cast<std::uint64_t>(limit)) return;
  const auto outside = [&](std::int32_t id) {
    return static_cast<std::uint32_t>(id) >= static_cast<std::uint64_t>(limit);
  };
  refuse_id(*this, first + (std::find_if(out.begin(), out.end(), outside) - out.begin()), limit);
}

void TokenFile::check_bounds() const {
  std::int64_t previous = 0;
  for (std::int64_t d = 0; d <= documents(); ++d) {
    const std::int64_t begin = document_begin(d);
    if (begin < previous || begin > tokens() || (d == 0 && begin != 0))
      throw UserError(str(info_.path, ": document ", d, " begins at token ", begin, ", but must begin in [",
                          previous, ", ", d == 0 ? 0 : tokens(), "]"));
    previous = begin;
  }
  if (previous != tokens())
    throw UserError(str(info_.path, ": the documents end at token ", previous, " of ", tokens()));
}

void TokenFile::check_ids() const {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(tokens(), kScanTokens)));
  for (std::int64_t first = 0; first < tokens(); first += kScanTokens)
    read(first, std::span(ids).first(static_cast<std::size_t>(std::min(kScanTokens, tokens() - first))), 0);
}

void TokenFile::check() const {
  check_bounds();
  check_ids();
}

std::shared_ptr<const TokenFile> open_token_file(const std::string& path) {
  const std::string stem =
      ends_with(path, ".bin") || ends_with(path, ".idx") ? path.substr(0, path.size() - 4) : path;
  if ((stem != path || !file_exists(path)) && is_megatron_index(stem + ".idx"))
    return open_megatron_file(stem);
  auto file = std::make_unique<MappedFile>(path);
  if (file->size() == 0) throw UserError(str("'", path, "' is empty: a token file has at least a header"));
  if (is_native_file(*file)) return open_native_file(std::move(file));
  if (is_llmc_file(*file)) return open_llmc_file(std::move(file));
  throw UserError(
      str("'", path, "' is no token file (it begins with '", first_bytes(*file),
          "'): build one from text with 'fivefold data build', or give llm.c .bin or Megatron .bin/.idx"));
}

}  // namespace fivefold
