// Cuts a piece into blocks, splits each into planes and keeps the smallest form of every plane.
#include <algorithm>
#include <cstring>
#include <vector>

#include "checkpoint/codec_block.h"
#include "checkpoint/hash.h"
#include "checkpoint/planes.h"
#include "checkpoint/zstd_check.h"

namespace fivefold {

namespace {

struct ZstdSetting {
  int level, min_match, hash_log;  // 0: the level's own
};
// Entropy coding with hardly a search: on exponent planes both faster and smaller than any search, since the
// few repeats of three bytes that a search finds cost more than they save.
constexpr ZstdSetting kEntropyOnly{1, 7, 6};

// What is tried on every plane; the smallest result is kept.
std::vector<ZstdSetting> settings_for(Compression compression, PieceCodec codec) {
  if (compression == Compression::small) return {kEntropyOnly, {9, 0, 0}};
  if (codec == PieceCodec::zstd) return {{3, 0, 0}};
  return {kEntropyOnly};
}

using CompressContext = std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)>;

CompressContext make_context(const ZstdSetting& setting) {
  CompressContext context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  FF_CHECK(context != nullptr, "zstd has no memory for a context");
  FF_ZSTD(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, setting.level));
  FF_ZSTD(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1));
  FF_ZSTD(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_minMatch, setting.min_match));
  FF_ZSTD(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_hashLog, setting.hash_log));
  return context;
}

std::vector<CompressContext> make_contexts(Compression compression, PieceCodec codec) {
  std::vector<CompressContext> contexts;
  for (const auto& setting : settings_for(compression, codec)) contexts.push_back(make_context(setting));
  return contexts;
}

}  // namespace

struct Encoder::State {
  explicit State(Compression wanted)
      : compression(wanted),
        for_zstd(make_contexts(wanted, PieceCodec::zstd)),
        for_planes(make_contexts(wanted, PieceCodec::planes)) {}

  // Appends one plane to `block`, compressed where that is smaller; returns its word in the header.
  std::uint32_t add_plane(std::span<const std::byte> plane, const std::vector<CompressContext>& contexts) {
    std::span<const std::byte> best = plane;
    for (const auto& context : contexts) {
      attempt.resize(ZSTD_compressBound(plane.size()));
      const auto n =
          FF_ZSTD(ZSTD_compress2(context.get(), attempt.data(), attempt.size(), plane.data(), plane.size()));
      if (n >= best.size()) continue;
      attempt.resize(n);
      std::swap(attempt, smallest);
      best = smallest;
    }
    block.insert(block.end(), best.begin(), best.end());
    return static_cast<std::uint32_t>(best.size()) | (best.data() == plane.data() ? 0 : kCompressedPlane);
  }

  // Leaves the stored form of one block in `block`.
  void build_block(PieceCodec codec, DType dtype, std::span<const std::byte> raw) {
    const int count = planes_of(codec, dtype);
    split.resize(raw.size());
    split_planes(count, raw, split);
    BlockHeader header{static_cast<std::uint32_t>(raw.size())};
    block.assign(header_bytes(count), std::byte{0});
    const auto plane_bytes = raw.size() / static_cast<std::size_t>(count);
    for (std::size_t p = 0; p < static_cast<std::size_t>(count); ++p)
      header[1 + p] = add_plane(std::span(split).subspan(p * plane_bytes, plane_bytes),
                                codec == PieceCodec::zstd ? for_zstd : for_planes);
    std::memcpy(block.data(), header.data(), header_bytes(count));
  }

  Compression compression;
  std::vector<CompressContext> for_zstd, for_planes;
  std::vector<std::byte> split, attempt, smallest, block;
};

Encoder::Encoder(Compression compression) : state_(std::make_unique<State>(compression)) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
PieceCodec Encoder::codec_for(DType dtype) const { return fivefold::codec_for(state_->compression, dtype); }

Encoded Encoder::encode(DType dtype, std::span<const std::byte> raw, const ByteSink& sink) {
  const PieceCodec codec = codec_for(dtype);
  Encoded result{.raw_bytes = static_cast<std::int64_t>(raw.size())};
  Xxh3 hash_raw, hash_stored;
  while (!raw.empty()) {
    const auto part = raw.first(std::min(raw.size(), static_cast<std::size_t>(kBlockBytes)));
    raw = raw.subspan(part.size());
    hash_raw.update(part);
    if (codec != PieceCodec::raw) state_->build_block(codec, dtype, part);
    const std::span<const std::byte> stored =
        codec == PieceCodec::raw ? part : std::span<const std::byte>(state_->block);
    hash_stored.update(stored);
    result.stored_bytes += static_cast<std::int64_t>(stored.size());
    sink(stored);
  }
  result.hash_raw = hash_raw.digest();
  result.hash_stored = hash_stored.digest();
  return result;
}

}  // namespace fivefold
