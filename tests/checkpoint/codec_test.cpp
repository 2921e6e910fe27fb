// Codecs: what goes in comes out, what was changed is noticed, and numbers get smaller.
#include <random>

#include "checkpoint/hash.h"
#include "checkpoint/planes.h"
#include "checkpoint/zstd_check.h"
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

using Bytes = std::vector<std::byte>;
constexpr Compression kCompressions[] = {Compression::none, Compression::fast, Compression::small};

Bytes random_bytes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(n);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// As weights are: normal, small.
template <class T>
Bytes normal_bytes(std::size_t count) {
  Bytes bytes(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(static_cast<float>(0.02 * philox_normal(7, 9, i)));
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

Bytes encode(Compression compression, DType dtype, const Bytes& raw, Encoded& encoded) {
  Bytes stored;
  Encoder encoder(compression);
  encoded = encoder.encode(dtype, raw, [&](std::span<const std::byte> part) {
    stored.insert(stored.end(), part.begin(), part.end());
  });
  return stored;
}

Bytes decode(PieceCodec codec, DType dtype, const Bytes& stored, std::int64_t raw_bytes, Encoded& seen) {
  Bytes raw;
  std::size_t at = 0;
  Decoder decoder;
  seen = decoder.decode(
      codec, dtype, static_cast<std::int64_t>(stored.size()), raw_bytes,
      [&](std::span<std::byte> out) {
        std::memcpy(out.data(), stored.data() + at, out.size());
        at += out.size();
      },
      [&](std::span<const std::byte> part) {
        EXPECT_LE(part.size(), static_cast<std::size_t>(kBlockBytes));
        raw.insert(raw.end(), part.begin(), part.end());
      });
  return raw;
}

TEST(Codec, RoundTripsEverySizeDtypeAndCompression) {
  for (const auto compression : kCompressions)
    for (const auto dtype : {DType::f64, DType::f32, DType::bf16, DType::i32, DType::u8})
      for (const std::int64_t bytes : {std::int64_t{0}, size_of(dtype), 10 * size_of(dtype), kBlockBytes - 8,
                                       kBlockBytes, 2 * kBlockBytes + 8})
        for (const auto& raw :
             {random_bytes(static_cast<std::size_t>(bytes), 3), Bytes(static_cast<std::size_t>(bytes))}) {
          Encoded encoded, seen;
          const auto stored = encode(compression, dtype, raw, encoded);
          const auto back = decode(codec_for(compression, dtype), dtype, stored, encoded.raw_bytes, seen);
          ASSERT_TRUE(back == raw) << name_of(compression) << " " << dtype << " " << bytes;
          ASSERT_EQ(seen, encoded);
          ASSERT_EQ(encoded.raw_bytes, bytes);
          ASSERT_EQ(encoded.stored_bytes, static_cast<std::int64_t>(stored.size()));
          ASSERT_EQ(encoded.hash_raw, xxh3(raw));
          ASSERT_EQ(encoded.hash_stored, xxh3(stored));
          const auto blocks = ceil_div(bytes, kBlockBytes);
          ASSERT_LE(encoded.stored_bytes, bytes + blocks * 36);  // never more than the headers above raw
        }
}

// Written to disk: a change of these bytes would make old checkpoints unreadable. Sign last, exponent in the
// highest plane.
TEST(Codec, PlanesAreAsTheFormatSays) {
  const float values[] = {1.0f, -2.0f};  // 3f800000 c0000000, turned left by one: 7f000000 80000001
  Bytes planes(8), back(8);
  split_planes(4, std::as_bytes(std::span(values)), planes);
  const std::uint8_t expected[] = {0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x7f, 0x80};
  EXPECT_EQ(std::memcmp(planes.data(), expected, 8), 0);
  join_planes(4, planes, back);
  EXPECT_EQ(std::memcmp(back.data(), values, 8), 0);

  Encoded encoded;
  const auto stored = encode(
      Compression::fast, DType::f32,
      Bytes(std::as_bytes(std::span(values)).begin(), std::as_bytes(std::span(values)).end()), encoded);
  const std::uint8_t block[] = {8, 0, 0, 0, 2, 0, 0,    0,    2,    0,    0,    0,    2,    0,
                                0, 0, 2, 0, 0, 0, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x7f, 0x80};
  ASSERT_EQ(stored.size(), sizeof(block));  // planes of two bytes are stored as they are
  EXPECT_EQ(std::memcmp(stored.data(), block, sizeof(block)), 0);
}

// Lossless size of normally distributed weights; plain zstd on f32 gives 1.08.
TEST(Codec, WeightsGetSmaller) {
  const auto ratio = [](Compression compression, DType dtype, const Bytes& raw) {
    Encoded encoded;
    encode(compression, dtype, raw, encoded);
    return static_cast<double>(encoded.raw_bytes) / static_cast<double>(encoded.stored_bytes);
  };
  EXPECT_GT(ratio(Compression::fast, DType::bf16, normal_bytes<bf16>(1 << 20)), 1.49);
  EXPECT_GT(ratio(Compression::fast, DType::f32, normal_bytes<float>(1 << 20)), 1.19);
  EXPECT_GT(ratio(Compression::small, DType::f32, normal_bytes<float>(1 << 20)), 1.19);
  EXPECT_GT(ratio(Compression::fast, DType::f32, Bytes(1 << 20)), 500);  // moments before the first step
  EXPECT_GT(ratio(Compression::fast, DType::i32, Bytes(1 << 20)), 500);
}

// B60: whatever bit changes, decoding throws or a hash differs; and it never reads or writes outside its
// buffers.
TEST(Codec, ChangedBytesAreNoticed) {
  std::mt19937_64 random(11);
  for (const auto dtype : {DType::bf16, DType::f32, DType::i32}) {
    Encoded encoded, seen;
    const auto raw = normal_bytes<float>(3000);
    const auto stored = encode(Compression::fast, dtype, raw, encoded);
    for (int i = 0; i < 400; ++i) {
      auto changed = stored;
      const auto bit =
          i < 160 ? static_cast<std::size_t>(i) : random() % (stored.size() * 8);  // all of the header
      changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      try {
        decode(codec_for(Compression::fast, dtype), dtype, changed, encoded.raw_bytes, seen);
        ASSERT_NE(seen.hash_stored, encoded.hash_stored) << "bit " << bit;
      } catch (const CodecError&) {
      }
    }
  }
}

TEST(Codec, LengthsMustAgree) {
  Encoded encoded, seen;
  const auto stored = encode(Compression::fast, DType::f32, normal_bytes<float>(100), encoded);
  const auto attempt = [&](Bytes bytes, std::int64_t raw_bytes) {
    return message_of([&] { decode(PieceCodec::planes, DType::f32, bytes, raw_bytes, seen); });
  };
  auto longer = stored, shorter = stored;
  longer.push_back({});
  shorter.pop_back();
  EXPECT_EQ(attempt(stored, 400), "");
  EXPECT_EQ(attempt(longer, 400), "1 stored bytes follow the last block");
  EXPECT_TRUE(contains(attempt(shorter, 400), "more stored bytes where"));
  EXPECT_TRUE(contains(attempt(stored, 396), "a block of 400 raw bytes cannot be where 396 are left"));
  EXPECT_TRUE(contains(attempt(stored, 404), "more stored bytes where 0 are left"));
}

// A reader's memory does not grow with what a file claims.
TEST(Codec, BlocksAreBounded) {
  const std::uint32_t header[] = {static_cast<std::uint32_t>(2 * kBlockBytes),
                                  static_cast<std::uint32_t>(2 * kBlockBytes)};
  Bytes stored(sizeof(header) + 2 * kBlockBytes);
  std::memcpy(stored.data(), header, sizeof(header));
  Encoded seen;
  const auto message =
      message_of([&] { decode(PieceCodec::zstd, DType::u8, stored, 2 * kBlockBytes, seen); });
  EXPECT_TRUE(contains(message, "a block of 2097152 raw bytes cannot be")) << message;
}

// B60: frames carry their own checksum beside our hashes, so that any zstd tool notices too.
TEST(Codec, FramesCarryAChecksum) {
  Encoded encoded;
  for (const auto compression : {Compression::fast, Compression::small}) {
    const auto stored = encode(compression, DType::i32, Bytes(4000), encoded);
    const std::uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    ASSERT_EQ(std::memcmp(stored.data() + 8, magic, 4), 0);
    EXPECT_NE(stored[12] & std::byte{4}, std::byte{0});  // Content_Checksum_flag, RFC 8878 section 3.1.1.1.1
  }
}

TEST(Codec, NamesAreKnownOrRefused) {
  EXPECT_EQ(codec_from("planes"), PieceCodec::planes);
  EXPECT_THROW(codec_from("lzma"), Error);
  EXPECT_EQ(compression_from("none"), Compression::none);
  EXPECT_EQ(message_of([] { compression_from("zip"); }),
            "compression is one of none, fast, small, not 'zip'");
}

TEST(Codec, ZstdErrorsAreErrors) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  const auto message =
      message_of([&] { FF_ZSTD(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_strategy, 99)); });
  EXPECT_TRUE(contains(message, "codec_test.cpp") && contains(message, "Parameter is out of bound"))
      << message;
}

TEST(Hash, IsXxh3InPartsOrAtOnce) {
  const auto bytes = random_bytes(10000, 5);
  Xxh3 parts;
  for (std::size_t at = 0; at < bytes.size(); at += 777)
    parts.update(std::span(bytes).subspan(at, std::min<std::size_t>(777, bytes.size() - at)));
  EXPECT_EQ(parts.digest(), xxh3(bytes));
  EXPECT_EQ(hash_hex(xxh3(std::string_view{})), "2d06800538d394c2");  // XXH3_64bits of nothing, as published
  EXPECT_EQ(hash_from_hex("2d06800538d394c2"), xxh3(std::string_view{}));
  for (const auto* wrong :
       {"", "2D06800538d394c2", "2d06800538d394c", "2d06800538d394c2 ", "2d06800538d394cg"})
    EXPECT_FALSE(hash_from_hex(wrong));
}

}  // namespace
}  // namespace fivefold::test
