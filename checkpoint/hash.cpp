// The library is compiled in, not linked: so it uses the vector width this program is built for.
#include "checkpoint/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fivefold {

struct alignas(64) Xxh3::State {
  XXH3_state_t native;
};

std::uint64_t xxh3(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
std::uint64_t xxh3(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

Xxh3::Xxh3() : state_(std::make_unique<State>()) { reset(); }
Xxh3::~Xxh3() = default;
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;
void Xxh3::reset() { XXH3_64bits_reset(&state_->native); }
void Xxh3::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->native, bytes.data(), bytes.size());
}
std::uint64_t Xxh3::digest() const { return XXH3_64bits_digest(&state_->native); }

std::string hash_hex(std::uint64_t hash) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) text[i] = "0123456789abcdef"[hash & 15];
  return text;
}

std::optional<std::uint64_t> hash_from_hex(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  std::uint64_t hash = 0;
  for (char c : text) {
    const auto digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    hash = hash << 4 | digit;
  }
  return hash;
}

}  // namespace fivefold
