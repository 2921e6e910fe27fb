// 64-bit xxh3 hashes of data, as written into token files and run states: 16 lower-case hexadecimal digits as
// text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace fivefold {

class MappedFile;

// Hashes a stream piece by piece; equal to the hash of the pieces joined.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t hash_bytes(std::span<const std::byte> bytes);
std::uint64_t hash_text(std::string_view text);

// Of the size and 256 blocks of 4 KiB spread evenly over the file (all of it up to 1 MiB): identifies a file
// that stores no hash of its own without reading hundreds of gigabytes. An edit between the blocks that keeps
// the size goes unseen.
std::uint64_t sampled_hash(const MappedFile& file);

std::string hex16(std::uint64_t value);

}  // namespace fivefold
