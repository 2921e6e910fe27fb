// The parts of a save, without ranks.
#include "checkpoint/build.h"

#include <algorithm>

#include "checkpoint/steps.h"

namespace fivefold {

CheckpointBuilder::CheckpointBuilder(FileSystem& fs, Path dir, RunState state, const SaveOptions& options,
                                     int files)
    : fs_(fs), dir_(std::move(dir)), state_(std::move(state)) {
  make_dirs_durably(fs_, dir_.parent_path());
  temporary_ = dir_.parent_path() / beside_name(dir_.filename().string(), "tmp");
  fs_.make_dir(temporary_);
  for (int i = 0; i < files; ++i)
    writers_.push_back(std::make_unique<PieceWriter>(fs_, temporary_, rank_file_name(i), options.compression,
                                                     options.piece_bytes));
}

CheckpointBuilder::~CheckpointBuilder() {
  if (finished_) return;
  writers_.clear();
  failure_of([&] { remove_tree(fs_, temporary_); });
}

void CheckpointBuilder::add(const std::string& name, DType dtype, const Shape& global, const Box& box,
                            std::span<const std::byte> raw, int file) {
  writers_.at(static_cast<std::size_t>(file))->write(name, dtype, global, box, raw);
}

void CheckpointBuilder::add(const std::string& name, const Tensor& tensor) {
  if (tensor.count() == 0) return;
  add(name, tensor.dtype(), tensor.shape(), whole(tensor.shape()),
      {tensor.raw(), static_cast<std::size_t>(tensor.bytes())});
}

SavedCheckpoint CheckpointBuilder::finish() {
  std::vector<Manifest> parts;
  for (auto& writer : writers_) parts.push_back(writer->finish());
  Manifest manifest = merge_parts(std::move(parts));
  manifest.state = state_;
  manifest.generation = next_generation(fs_, dir_.parent_path());
  const SavedCheckpoint saved = commit_directory(fs_, temporary_, dir_, manifest);
  finished_ = true;
  return saved;
}

namespace {

// The rows of dim 0 that file `i` of `files` holds; a tensor without dims goes to the first.
Box part_of(const Shape& shape, int i, int files) {
  Box box = whole(shape);
  if (shape.rank() == 0) return box;
  const auto rows = ceil_div(shape[0], files);
  box.begin[0] = std::min(shape[0], i * rows);
  box.end[0] = std::min(shape[0], box.begin[0] + rows);
  return box;
}

}  // namespace

SavedCheckpoint reshard(FileSystem& fs, const Path& from, const Path& to, int files,
                        const SaveOptions& options) {
  if (files < 1) throw UserError(str("a checkpoint is cut into at least 1 piece, not ", files));
  if (fs.kind(to) != PathKind::none)
    throw UserError(str(to.string(), " exists already; name a folder that does not"));
  const Manifest manifest = read_manifest(fs, from);
  CheckpointBuilder builder(fs, to, manifest.state, options, files);
  PieceReader reader(fs, from);
  std::vector<std::byte> raw;
  for (const auto& tensor : manifest.tensors)
    for (int i = 0; i < (tensor.shape.rank() == 0 ? 1 : files); ++i)
      for (const Box& box :
           split_box(part_of(tensor.shape, i, files),
                     std::max<std::int64_t>(1, options.piece_bytes / size_of(tensor.dtype)))) {
        read_box(reader, tensor, box, raw);
        builder.add(tensor.name, tensor.dtype, tensor.shape, box, raw, i);
      }
  return builder.finish();
}

}  // namespace fivefold
