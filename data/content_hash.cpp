#include "data/content_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "data/mapped_file.h"

namespace fivefold {

struct StreamHash::State {
  XXH3_state_t xxh;  // aligned to 64 bytes by its type
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
StreamHash::~StreamHash() = default;
void StreamHash::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
std::uint64_t StreamHash::value() const { return XXH3_64bits_digest(&state_->xxh); }

std::uint64_t hash_bytes(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
std::uint64_t hash_text(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::uint64_t sampled_hash(const MappedFile& file) {
  constexpr std::int64_t kBlocks = 256, kBlockBytes = 4096;
  StreamHash hash;
  const std::int64_t size = file.size();
  hash.add(std::as_bytes(std::span(&size, 1)));
  if (size <= kBlocks * kBlockBytes) {
    hash.add(file.bytes(0, size));
    return hash.value();
  }
  const std::int64_t last = size - kBlockBytes;
  for (std::int64_t b = 0; b < kBlocks; ++b) {
    const std::int64_t whole = last / (kBlocks - 1), rest = last % (kBlocks - 1);
    hash.add(file.bytes(whole * b + rest * b / (kBlocks - 1), kBlockBytes));
  }
  return hash.value();
}

std::string hex16(std::uint64_t value) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value >>= 4)
    *digit = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace fivefold
