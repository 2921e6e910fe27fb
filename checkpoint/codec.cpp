// Codecs and compressions by name, and which codec suits which dtype.
#include "checkpoint/codec.h"

#include <algorithm>
#include <optional>

namespace fivefold {

namespace {

template <NamedEnum E>
std::optional<E> named(std::string_view name) {
  const auto names = enum_names<E>();
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<E>(found - names.begin()));
}

}  // namespace

PieceCodec codec_from(std::string_view name) {
  if (const auto codec = named<PieceCodec>(name)) return *codec;
  throw Error(str("unknown codec '", name, "'; this program knows raw, zstd and planes"));
}

Compression compression_from(std::string_view name) {
  if (const auto compression = named<Compression>(name)) return *compression;
  throw UserError(str("compression is one of none, fast, small, not '", name, "'"));
}

PieceCodec codec_for(Compression compression, DType dtype) {
  if (compression == Compression::none) return PieceCodec::raw;
  return dtype == DType::i32 || dtype == DType::u8 ? PieceCodec::zstd : PieceCodec::planes;
}

}  // namespace fivefold
