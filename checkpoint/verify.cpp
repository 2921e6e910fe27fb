// One pass over all pieces in the order of the files.
#include "checkpoint/verify.h"

#include "checkpoint/piece_io.h"

namespace fivefold {

std::vector<std::string> verify_checkpoint(FileSystem& fs, const Path& dir) {
  std::vector<std::string> problems;
  const auto attempt = [&](const std::function<void()>& work) {
    if (const auto failure = failure_of(work); !failure.empty()) problems.push_back(failure.substr(1));
  };
  Manifest manifest;
  attempt([&] { manifest = read_manifest(fs, dir); });
  PieceReader reader(fs, dir);
  for (const auto& read : all_reads(manifest))
    attempt([&] { reader.read(*read.tensor, *read.piece, [](std::span<const std::byte>) {}); });
  return problems;
}

}  // namespace fivefold
