// Makes a checkpoint in one process, tensor by tensor: for importing, and for rewriting one in another cut.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/save.h"

namespace fivefold {

// Everything happens in a directory beside `dir` until finish(); without that it is removed again.
class CheckpointBuilder {
 public:
  // `files` files share the tensors (rank_00000.bin, ...). `dir` may end in step_N or have another name.
  CheckpointBuilder(FileSystem& fs, Path dir, RunState state, const SaveOptions& options = {}, int files = 1);
  ~CheckpointBuilder();
  CheckpointBuilder(const CheckpointBuilder&) = delete;
  CheckpointBuilder& operator=(const CheckpointBuilder&) = delete;

  // Adds a box of a tensor to a file; all boxes of a tensor tile its shape in the end. A tensor's boxes go to
  // a file one after another.
  void add(const std::string& name, DType dtype, const Shape& global, const Box& box,
           std::span<const std::byte> raw, int file = 0);
  void add(const std::string& name, const Tensor& tensor);  // whole, host memory
  // Commits. Once, at the end.
  SavedCheckpoint finish();

 private:
  FileSystem& fs_;
  Path dir_, temporary_;
  RunState state_;
  std::vector<std::unique_ptr<PieceWriter>> writers_;
  bool finished_ = false;
};

// Writes the checkpoint `from` again as `to`, every tensor cut along dim 0 into `files` files, the rest
// unchanged. Verifies what it reads. Memory: one piece. Throws UserError if `to` exists.
SavedCheckpoint reshard(FileSystem& fs, const Path& from, const Path& to, int files,
                        const SaveOptions& options = {});

}  // namespace fivefold
