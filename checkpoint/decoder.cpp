// Reads blocks of planes and refuses whatever an encoder would not write: sizes are checked before they are
// used.
#include <algorithm>
#include <cstring>
#include <vector>

#include "checkpoint/codec_block.h"
#include "checkpoint/hash.h"
#include "checkpoint/planes.h"
#include "checkpoint/zstd_check.h"

namespace fivefold {

struct Decoder::State {
  State() : context(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    FF_CHECK(context != nullptr, "zstd has no memory for a context");
  }

  // Reads the next `bytes` of the piece into `into`.
  std::span<const std::byte> take(std::size_t bytes, std::vector<std::byte>& into, const ByteSource& source) {
    if (static_cast<std::int64_t>(bytes) > stored_left)
      throw CodecError(str("a block needs ", bytes, " more stored bytes where ", stored_left, " are left"));
    into.resize(bytes);
    source(into);
    hash_stored.update(into);
    stored_left -= static_cast<std::int64_t>(bytes);
    return into;
  }

  // Decodes a plane of exactly out.size() bytes from exactly `stored`.
  void decode_plane(bool compressed, std::span<const std::byte> stored, std::span<std::byte> out) {
    if (!compressed) return static_cast<void>(std::memcpy(out.data(), stored.data(), out.size()));
    if (ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size())
      throw CodecError(str("a plane of ", stored.size(), " stored bytes is not one zstd frame"));
    const auto n = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), stored.data(), stored.size());
    if (ZSTD_isError(n)) throw CodecError(str("zstd: ", ZSTD_getErrorName(n)));
    if (n != out.size()) throw CodecError(str("a plane holds ", n, " bytes, not ", out.size()));
  }

  // Stored bytes of a plane, checked: a compressed one is smaller than the plane, a raw one as large.
  static std::size_t stored_size(std::uint32_t word, std::size_t plane_bytes) {
    const std::size_t bytes = word & ~kCompressedPlane;
    if (word & kCompressedPlane ? bytes >= plane_bytes : bytes != plane_bytes)
      throw CodecError(str("a plane of ", plane_bytes, " bytes cannot be stored in ", bytes));
    return bytes;
  }

  std::span<const std::byte> block(PieceCodec codec, DType dtype, std::int64_t raw_left,
                                   const ByteSource& source);
  std::span<const std::byte> raw_block(std::int64_t raw_left, const ByteSource& source) {
    return take(static_cast<std::size_t>(std::min(raw_left, kBlockBytes)), raw, source);
  }

  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context;
  Xxh3 hash_stored;
  std::int64_t stored_left = 0;
  std::vector<std::byte> buffer, split, raw;
};

std::span<const std::byte> Decoder::State::block(PieceCodec codec, DType dtype, std::int64_t raw_left,
                                                 const ByteSource& source) {
  const int count = planes_of(codec, dtype);
  BlockHeader words{};
  std::memcpy(words.data(), take(header_bytes(count), buffer, source).data(), header_bytes(count));
  const std::size_t raw_bytes = words[0];
  if (raw_bytes == 0 || raw_bytes > static_cast<std::size_t>(kBlockBytes) ||
      static_cast<std::int64_t>(raw_bytes) > raw_left ||
      raw_bytes % static_cast<std::size_t>(size_of(dtype)) != 0)
    throw CodecError(str("a block of ", raw_bytes, " raw bytes cannot be where ", raw_left, " are left"));
  const auto plane_bytes = raw_bytes / static_cast<std::size_t>(count);
  std::size_t stored_bytes = 0;
  for (int p = 0; p < count; ++p)
    stored_bytes += stored_size(words[static_cast<std::size_t>(1 + p)], plane_bytes);
  auto stored = take(stored_bytes, buffer, source);
  split.resize(raw_bytes);
  raw.resize(raw_bytes);
  for (std::size_t p = 0; p < static_cast<std::size_t>(count); ++p) {
    const auto word = words[1 + p];
    const auto bytes = stored.first(stored_size(word, plane_bytes));
    stored = stored.subspan(bytes.size());
    decode_plane((word & kCompressedPlane) != 0, bytes,
                 std::span(split).subspan(p * plane_bytes, plane_bytes));
  }
  join_planes(count, split, raw);
  return raw;
}

Decoder::Decoder() : state_(std::make_unique<State>()) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;

Encoded Decoder::decode(PieceCodec codec, DType dtype, std::int64_t stored_bytes, std::int64_t raw_bytes,
                        const ByteSource& source, const ByteSink& sink) {
  state_->hash_stored.reset();
  state_->stored_left = stored_bytes;
  Xxh3 hash_raw;
  for (std::int64_t left = raw_bytes; left > 0;) {
    const auto raw = codec == PieceCodec::raw ? state_->raw_block(left, source)
                                              : state_->block(codec, dtype, left, source);
    hash_raw.update(raw);
    left -= static_cast<std::int64_t>(raw.size());
    sink(raw);
  }
  if (state_->stored_left != 0)
    throw CodecError(str(state_->stored_left, " stored bytes follow the last block"));
  return {stored_bytes, raw_bytes, state_->hash_stored.digest(), hash_raw.digest()};
}

}  // namespace fivefold
