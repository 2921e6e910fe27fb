// Lossless compression of tensor pieces, block by block, so that memory stays bounded whatever the size of a
// piece. Trained weights hardly repeat, but their exponents are few: a number is turned so that its sign
// comes last, numbers are split into planes of bytes of equal weight, and a plane is compressed only where
// that makes it smaller. The stored form is described in docs/formats/checkpoint.md.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/enum_names.h"
#include "core/types.h"

namespace fivefold {

// Written to checkpoints by name, never by number.
//   raw     the bytes as they are
//   zstd    blocks of one plane: bytes in their order
//   planes  blocks of one plane per byte of an element
enum class PieceCodec : std::uint8_t { raw, zstd, planes };
template <>
inline constexpr auto kEnumNames<PieceCodec> = std::to_array<std::string_view>({"raw", "zstd", "planes"});
// Throws Error for an unknown name.
PieceCodec codec_from(std::string_view name);

// How hard to try. none: codec raw. fast: about as fast as a disk, entropy coding only. small: also searches
// for repeats.
enum class Compression : std::uint8_t { none, fast, small };
template <>
inline constexpr auto kEnumNames<Compression> = std::to_array<std::string_view>({"none", "fast", "small"});
// Throws UserError for a name that is none of none, fast, small.
Compression compression_from(std::string_view name);

// Floating dtypes go by planes, the others by zstd.
PieceCodec codec_for(Compression compression, DType dtype);

// Raw bytes of a block: encoders cut pieces into blocks of this size, decoders refuse larger ones.
constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

// The stored bytes are not what an encoder writes.
class CodecError : public Error {
 public:
  using Error::Error;
};

// What identifies an encoded piece: sizes and hashes of its stored and its raw bytes.
struct Encoded {
  std::int64_t stored_bytes = 0, raw_bytes = 0;
  std::uint64_t hash_stored = 0, hash_raw = 0;
  bool operator==(const Encoded&) const = default;
};

using ByteSink = std::function<void(std::span<const std::byte>)>;
using ByteSource = std::function<void(std::span<std::byte>)>;  // fills the whole span with what comes next

// Holds about three blocks of memory. Not thread safe.
class Encoder {
 public:
  explicit Encoder(Compression compression);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  // Passes the stored form to `sink` in order. `raw` holds whole elements of `dtype`; its codec is
  // codec_for(dtype).
  Encoded encode(DType dtype, std::span<const std::byte> raw, const ByteSink& sink);
  PieceCodec codec_for(DType dtype) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Holds about three blocks of memory. Not thread safe.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  // Reads exactly `stored_bytes` from `source` and passes `raw_bytes` to `sink` in order, in spans of whole
  // elements of at most kBlockBytes. Returns sizes and hashes of what it saw: the caller compares them with
  // what it expects. Throws CodecError where the bytes cannot be decoded, or hold less or more.
  Encoded decode(PieceCodec codec, DType dtype, std::int64_t stored_bytes, std::int64_t raw_bytes,
                 const ByteSource& source, const ByteSink& sink);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fivefold
