// XXH3, 64 bits (seed 0): the content hash of checkpoints. Finds accidents (flipped bits, mixed files), not
// forgeries.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fivefold {

std::uint64_t xxh3(std::span<const std::byte> bytes);
std::uint64_t xxh3(std::string_view text);

// The same hash of bytes that arrive in parts.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;
  void reset();
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 16 lower-case hexadecimal digits, most significant first: the form of a hash in every text file.
std::string hash_hex(std::uint64_t hash);
// The inverse; nothing unless exactly that form.
std::optional<std::uint64_t> hash_from_hex(std::string_view text);

}  // namespace fivefold
