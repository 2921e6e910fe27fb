// Walks the pieces of the first checkpoint and reads the same boxes of the second.
#include "checkpoint/diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/convert.h"
#include "checkpoint/piece_io.h"

namespace fivefold {

namespace {

struct Side {
  PieceReader reader;
  Manifest manifest;
  std::vector<std::byte> raw;
};

double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : std::numeric_limits<double>::infinity();
}

// Row-major index in the whole tensor of element `i` of a box.
std::int64_t global_index(const Shape& shape, const Box& box, std::int64_t i) {
  const Shape part = box.shape();
  std::int64_t index = 0;
  for (int d = 0; d < shape.rank(); ++d)
    index += (box.begin[d] + i / part.tail_count(d + 1) % part[d]) * shape.tail_count(d + 1);
  return index;
}

template <class T>
void compare_elements(const std::byte* a, const std::byte* b, const Shape& shape, const Box& box,
                      TensorDiff& diff) {
  const auto* x = reinterpret_cast<const T*>(a);
  const auto* y = reinterpret_cast<const T*>(b);
  for (std::int64_t i = 0; i < box.count(); ++i) {
    if (std::memcmp(x + i, y + i, sizeof(T)) == 0) continue;
    const auto index = global_index(shape, box, i);
    diff.first = diff.differing++ == 0 ? index : std::min(diff.first, index);
    diff.max_abs = std::max(diff.max_abs, difference(static_cast<double>(x[i]), static_cast<double>(y[i])));
  }
}

void compare_boxes(const Side& a, const Side& b, DType dtype, const Shape& shape, const Box& box,
                   TensorDiff& diff) {
  const auto *x = a.raw.data(), *y = b.raw.data();
  if (is_floating(dtype))
    with_float(dtype, [&](auto t) { compare_elements<decltype(t)>(x, y, shape, box, diff); });
  else if (dtype == DType::i32)
    compare_elements<std::int32_t>(x, y, shape, box, diff);
  else
    compare_elements<std::uint8_t>(x, y, shape, box, diff);
}

bool surely_equal(const Piece& piece, const StoredTensor& other) {
  return std::any_of(other.pieces.begin(), other.pieces.end(), [&](const Piece& same) {
    return same.box == piece.box && same.encoded.hash_raw == piece.encoded.hash_raw;
  });
}

void compare_tensor(Side& a, Side& b, const StoredTensor& x, const StoredTensor& y, CheckpointDiff& result) {
  TensorDiff diff{.name = x.name, .form = {}};
  if (x.dtype != y.dtype || x.shape != y.shape) {
    diff.form = str(x.dtype, " ", x.shape, " and ", y.dtype, " ", y.shape);
    return result.tensors.push_back(diff);
  }
  for (const auto& piece : x.pieces) {
    if (surely_equal(piece, y)) continue;
    read_box(a.reader, x, piece.box, a.raw);
    read_box(b.reader, y, piece.box, b.raw);
    compare_boxes(a, b, x.dtype, x.shape, piece.box, diff);
  }
  if (diff.differing > 0) result.tensors.push_back(diff);
}

template <class T>
void note(std::vector<std::string>& notes, const char* what, const T& a, const T& b) {
  if (a != b) notes.push_back(str(what, " ", a, " and ", b));
}

std::vector<std::string> state_notes(const RunState& a, const RunState& b) {
  std::vector<std::string> notes;
  note(notes, "step", a.step, b.step);
  note(notes, "samples", a.samples, b.samples);
  note(notes, "seed", a.seed, b.seed);
  note(notes, "data hash", a.data_hash, b.data_hash);
  note(notes, "tokenizer hash", a.tokenizer_hash, b.tokenizer_hash);
  if (a.config != b.config) notes.push_back("the configurations differ");
  if (a.extra != b.extra) notes.push_back("the further entries differ");
  return notes;
}

}  // namespace

CheckpointDiff diff_checkpoints(FileSystem& fs, const Path& first, const Path& second) {
  Side a{PieceReader(fs, first), read_manifest(fs, first), {}},
      b{PieceReader(fs, second), read_manifest(fs, second), {}};
  CheckpointDiff result;
  result.state = state_notes(a.manifest.state, b.manifest.state);
  for (const auto& x : a.manifest.tensors) {
    const StoredTensor* y = b.manifest.find(x.name);
    if (!y) {
      result.only_in_first.push_back(x.name);
      continue;
    }
    ++result.compared;
    compare_tensor(a, b, x, *y, result);
  }
  for (const auto& y : b.manifest.tensors)
    if (!a.manifest.find(y.name)) result.only_in_second.push_back(y.name);
  return result;
}

}  // namespace fivefold
