// Box arithmetic of saving and loading.
#include "checkpoint/plan.h"

#include <algorithm>
#include <tuple>

namespace fivefold {

namespace {

bool share(const Box& a, const Box& b) { return intersect(a, b).count() > 0; }

void split_into(const Box& box, std::int64_t max_count, std::vector<Box>& parts) {
  const Shape shape = box.shape();
  if (shape.count() <= max_count) return parts.push_back(box);
  int dim = 0;
  while (shape[dim] == 1) ++dim;  // a box of more than one element has such a dim
  const auto rows = std::max<std::int64_t>(1, max_count / shape.tail_count(dim + 1));
  for (std::int64_t begin = box.begin[dim]; begin < box.end[dim]; begin += rows) {
    Box part = box;
    part.begin[dim] = begin;
    part.end[dim] = std::min(box.end[dim], begin + rows);
    split_into(part, max_count, parts);
  }
}

void sort_by_place(std::vector<PieceRead>& reads) {
  std::stable_sort(reads.begin(), reads.end(), [](const PieceRead& a, const PieceRead& b) {
    return std::tie(a.piece->file, a.piece->offset) < std::tie(b.piece->file, b.piece->offset);
  });
}

}  // namespace

bool writes_box(const Shape& global, const PartitionSpec& spec, const MeshLayout& mesh, int position,
                int first_pp) {
  return mesh.coordinate(position, Axis::pp) == first_pp && owns_box(global, spec, mesh, position);
}

LocalTensor local_tensor(std::string name, const Shape& global, const PartitionSpec& spec,
                         const MeshLayout& mesh, int position, int first_pp, Tensor data) {
  return {std::move(name), global, box_of(global, spec, mesh, position), std::move(data),
          writes_box(global, spec, mesh, position, first_pp)};
}

std::vector<Box> split_box(const Box& box, std::int64_t max_count) {
  FF_CHECK(max_count > 0, "parts of ", max_count, " elements");
  std::vector<Box> parts;
  if (box.count() > 0) split_into(box, max_count, parts);
  return parts;
}

BoxRuns::BoxRuns(const Box& from, const Box& to) {
  const Box common = intersect(from, to);
  const Shape from_shape = from.shape(), to_shape = to.shape(), shape = common.shape();
  const int rank = shape.rank();
  runs_ = shape.count() > 0 ? 1 : 0;
  first_.count = 1;
  bool inside_run = true;  // everything below dim d is common to both and lies together in both
  for (int d = rank - 1; d >= 0; --d) {
    first_.from += (common.begin[d] - from.begin[d]) * from_shape.tail_count(d + 1);
    first_.to += (common.begin[d] - to.begin[d]) * to_shape.tail_count(d + 1);
    if (inside_run) {
      first_.count *= shape[d];
      inside_run = shape[d] == from_shape[d] && shape[d] == to_shape[d];
      continue;
    }
    const auto i = static_cast<std::size_t>(outer_dims_++);
    extent_[i] = shape[d];
    from_stride_[i] = from_shape.tail_count(d + 1);
    to_stride_[i] = to_shape.tail_count(d + 1);
    runs_ *= shape[d];
  }
}

CopyRun BoxRuns::operator[](std::int64_t i) const {
  CopyRun run = first_;
  for (std::size_t d = 0; d < static_cast<std::size_t>(outer_dims_); ++d) {
    run.from += i % extent_[d] * from_stride_[d];
    run.to += i % extent_[d] * to_stride_[d];
    i /= extent_[d];
  }
  return run;
}

std::vector<PieceRead> plan_reads(const Manifest& manifest, std::span<const LocalTensor> wanted) {
  std::vector<PieceRead> reads;
  for (const auto& tensor : wanted) {
    const StoredTensor* stored = manifest.find(tensor.name);
    if (!stored) continue;
    for (const auto& piece : stored->pieces)
      if (share(piece.box, tensor.box)) reads.push_back({stored, &piece, &tensor});
  }
  sort_by_place(reads);
  return reads;
}

std::vector<PieceRead> all_reads(const Manifest& manifest) {
  std::vector<PieceRead> reads;
  for (const auto& tensor : manifest.tensors)
    for (const auto& piece : tensor.pieces) reads.push_back({&tensor, &piece, nullptr});
  sort_by_place(reads);
  return reads;
}

}  // namespace fivefold
