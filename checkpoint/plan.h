// Who writes which box, and which stored bytes a wanted box is made of. Pure functions.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "core/tensor.h"

namespace fivefold {

// Elements that a rank keeps in another form than files do. Both take a tensor of all of them in host memory,
// of the box's shape and `dtype`, and are done with it on return.
struct Conversion {
  DType dtype = DType::f32;
  std::function<void(const Tensor& to)> read;
  std::function<void(const Tensor& from)> write;
};

// A tensor as one rank holds it: what it offers to a save or wants from a load.
struct LocalTensor {
  std::string name;  // model/..., adam_m/..., adam_v/..., master/..., buffer/...
  Shape global;
  Box box;                   // the part held here; may be empty
  Tensor data;               // box.count() elements, row-major; may be null where the box is empty
  bool owned = true;         // this rank writes the box; exactly one of its holders does
  Stream* stream = nullptr;  // of data's device, where data is not in host memory
  std::shared_ptr<const Conversion> conversion;  // in place of data

  DType dtype() const { return conversion ? conversion->dtype : data.dtype(); }
};

// True on exactly one mesh position per distinct non-empty box: the lowest one that holds it. `first_pp` is
// the lowest pp coordinate whose stages hold the tensor (both ends hold a tied embedding: the lower writes
// it).
bool writes_box(const Shape& global, const PartitionSpec& spec, const MeshLayout& mesh, int position,
                int first_pp);

// The entry of mesh position `position` for a tensor cut by `spec`.
LocalTensor local_tensor(std::string name, const Shape& global, const PartitionSpec& spec,
                         const MeshLayout& mesh, int position, int first_pp, Tensor data);

// Cuts a box into parts of at most `max_count` elements, each contiguous within the box, in its row-major
// order.
std::vector<Box> split_box(const Box& box, std::int64_t max_count);

// The elements that two boxes of one tensor share, as runs that are contiguous in both; offsets in elements
// from the start of each box, row-major. Runs ascend in both. Values are computed, not stored.
struct CopyRun {
  std::int64_t from = 0, to = 0, count = 0;
  bool operator==(const CopyRun&) const = default;
};
class BoxRuns {
 public:
  BoxRuns(const Box& from, const Box& to);
  std::int64_t size() const { return runs_; }
  CopyRun operator[](std::int64_t i) const;

 private:
  int outer_dims_ = 0;  // dims that are walked; the others are inside a run
  std::int64_t runs_ = 0;
  CopyRun first_;
  std::array<std::int64_t, Shape::kMaxRank> extent_{}, from_stride_{}, to_stride_{};
};

// One read of a load: a stored piece that shares elements with a wanted tensor.
struct PieceRead {
  const StoredTensor* tensor;
  const Piece* piece;
  const LocalTensor* wanted;
};
// All reads that `wanted` needs, ordered by file and offset. Names that the manifest lacks need none.
std::vector<PieceRead> plan_reads(const Manifest& manifest, std::span<const LocalTensor> wanted);
// Every piece, ordered by file and offset, wanted by nobody (null).
std::vector<PieceRead> all_reads(const Manifest& manifest);

}  // namespace fivefold
