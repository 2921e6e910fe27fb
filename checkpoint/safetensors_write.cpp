// Streams tensors into files whose headers are known beforehand.
#include <algorithm>

#include "checkpoint/safetensors_header.h"

namespace fivefold {

namespace {

std::int64_t bytes_of(const SafetensorSpec& tensor) { return tensor.shape.count() * size_of(tensor.dtype); }

// Tensors in order, a new group where the next would pass `limit`.
std::vector<std::vector<SafetensorSpec>> group(const std::vector<SafetensorSpec>& tensors,
                                               std::int64_t limit) {
  std::vector<std::vector<SafetensorSpec>> groups(1);
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors) {
    if (!groups.back().empty() && bytes + bytes_of(tensor) > limit) {
      groups.emplace_back();
      bytes = 0;
    }
    bytes += bytes_of(tensor);
    groups.back().push_back(tensor);
  }
  return groups;
}

std::string padded(std::size_t n) {
  const std::string digits = std::to_string(n);
  return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
}

std::string header_text(const std::vector<SafetensorSpec>& tensors, const SafetensorsOptions& options) {
  SafetensorsHeader header{options.metadata, {}};
  std::int64_t end = 0;
  for (const auto& tensor : tensors) {
    const auto begin = std::exchange(end, end + bytes_of(tensor));
    header.tensors.push_back({tensor.name, safetensors_dtype(tensor.dtype), tensor.shape, 0, begin, end});
  }
  return safetensors_header_text(header);
}

void write_file(FileSystem& fs, const Path& path, const std::vector<SafetensorSpec>& tensors,
                const SafetensorFill& fill, const SafetensorsOptions& options) {
  const Path temporary = path.string() + ".tmp";
  const auto file = fs.create(temporary);
  const std::string header = header_text(tensors, options);
  const std::uint64_t length = header.size();
  file->append(std::as_bytes(std::span(&length, 1)));
  file->append(std::as_bytes(std::span(header)));
  for (const auto& tensor : tensors) {
    std::int64_t left = bytes_of(tensor);
    fill(tensor, [&](std::span<const std::byte> bytes) {
      left -= static_cast<std::int64_t>(bytes.size());
      FF_CHECK(left >= 0, tensor.name, " was given more than its ", bytes_of(tensor), " bytes");
      file->append(bytes);
    });
    FF_CHECK_EQ(left, 0, "bytes of ", tensor.name, " that were not given");
  }
  file->sync();
  file->close();
  fs.rename(temporary, path);
}

void check_names(const std::vector<SafetensorSpec>& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  FF_CHECK(std::adjacent_find(names.begin(), names.end()) == names.end(), "a tensor's name appears twice");
}

}  // namespace

std::vector<std::string> write_safetensors(FileSystem& fs, const Path& dir,
                                           const std::vector<SafetensorSpec>& tensors,
                                           const SafetensorFill& fill, const SafetensorsOptions& options) {
  check_names(tensors);
  const auto groups = group(tensors, options.shard_bytes);
  std::vector<std::string> names;
  std::map<std::string, std::string> file_of;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    names.push_back(groups.size() == 1
                        ? "model.safetensors"
                        : str("model-", padded(i + 1), "-of-", padded(groups.size()), ".safetensors"));
    write_file(fs, dir / names.back(), groups[i], fill, options);
    for (const auto& tensor : groups[i]) {
      file_of[tensor.name] = names.back();
      total += bytes_of(tensor);
    }
  }
  if (groups.size() > 1)
    write_text_durably(fs, dir / "model.safetensors.index.json", safetensors_index_text(file_of, total));
  fs.sync_dir(dir);
  return names;
}

}  // namespace fivefold
