// What the two attention passes do with a strip of 16 queries against some keys: packing, masking, rounding.
// Scores of a strip are [keys, 16]: element (j, i) is key j with query i.
#pragma once
#include <atomic>
#include <limits>

#include "kernels/cpu/accum.h"
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/tile_product.h"

namespace fivefold::cpu {

static_assert(kStrip == kPanel);
// Multiply-adds in a nanosecond, about: what a task costs decides whether threads are started for it.
constexpr std::int64_t kPairsOfNanosecond = 40;

// Rows of one tensor [T, H, width] as the products want them: row t of head h begins at data + h *
// head_stride + t * row_stride.
template <class A>
struct HeadRows {
  const A* data;
  std::int64_t head_stride, row_stride;
  const A* at(std::int64_t head, std::int64_t row) const {
    return data + head * head_stride + row * row_stride;
  }
};

// dst [rows, ld] = scale * src, zero behind column `width`. Source rows lie `stride` apart.
template <class T, class A>
void pack_rows(const T* src, std::int64_t stride, std::int64_t rows, std::int64_t width, A scale, A* dst,
               std::int64_t ld) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < width; ++c) dst[r * ld + c] = scale * static_cast<A>(src[r * stride + c]);
    for (std::int64_t c = width; c < ld; ++c) dst[r * ld + c] = 0;
  }
}

// Row `row` of dst (T or its arithmetic type) = factor * src, rounded once.
template <class T, class A>
void write_row(const Tensor& dst, std::int64_t row, std::int64_t width, A factor, const A* src) {
  const auto write = [&](auto* to) {
    using To = std::remove_pointer_t<decltype(to)>;
    for (std::int64_t c = 0; c < width; ++c) to[row * width + c] = static_cast<To>(factor * src[c]);
  };
  if (dst.dtype() == dtype_of<T>())
    write(dst.data<T>());
  else
    write(dst.data<A>());
}

// Transposes a square of vectors, row r of which begins at src + r * ld, to rows `ld_dst` apart. Each round
// interleaves the first half of the rows with the second half; log2(lanes) rounds make a transpose.
template <class A>
void transpose_square(const A* src, std::int64_t ld, A* dst, std::int64_t ld_dst) {
  using V = typename Vector<A>::type;
  constexpr int kLanes = Vector<A>::kLanes;
  V rows[kLanes], next[kLanes];
  for (int r = 0; r < kLanes; ++r) rows[r] = vector_at(src + r * ld);
  for (int stride = 1; stride < kLanes; stride *= 2) {
    for (int r = 0; r < kLanes / 2; ++r) {
      const V a = rows[r], b = rows[r + kLanes / 2];
      if constexpr (kLanes == 8) {
        next[2 * r] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        next[2 * r + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
      } else {
        next[2 * r] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        next[2 * r + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      }
    }
    for (int r = 0; r < kLanes; ++r) rows[r] = next[r];
  }
  for (int r = 0; r < kLanes; ++r) vector_at(dst + r * ld_dst) = rows[r];
}

// dst [width, 16] = the transpose of src [16, width]. `width` is a multiple of 16.
template <class A>
void transpose_strip(const A* src, std::int64_t width, A* dst) {
  constexpr std::int64_t kLanes = Vector<A>::kLanes;
  for (std::int64_t c = 0; c < width; c += kLanes)
    for (std::int64_t r = 0; r < kStrip; r += kLanes)
      transpose_square(src + r * width + c, width, dst + c * kStrip + r, kStrip);
}

// Scores of pairs that do not see each other become -inf. `index` belongs to the first key of s.
template <class A>
void mask_strip(const QueryStrip& strip, const std::int32_t* index, std::int64_t keys, A* s,
                std::int64_t ld) {
  constexpr A kHidden = -std::numeric_limits<A>::infinity();
  const std::int32_t* const first = strip.first.data();
  const std::int32_t* const last = strip.last.data();
  for (std::int64_t j = 0; j < keys; ++j) {
    const std::int32_t key = index[j];
    A* const row = s + j * ld;
    for (std::int64_t i = 0; i < kStrip; ++i)
      row[i] = (first[i] <= key) & (key <= last[i]) ? row[i] : kHidden;
  }
}

// The rounding points of bf16 attention; nothing for f32 and f64.
template <class T, class A>
void round_strip(std::int64_t keys, A* s, std::int64_t ld) {
  if constexpr (std::is_same_v<T, bf16>)
    for (std::int64_t j = 0; j < keys; ++j)
      for (std::int64_t i = 0; i < kStrip; ++i) s[j * ld + i] = bf16(s[j * ld + i]);
}

// Cuts one block of scratch into parts.
template <class A>
class ScratchParts {
 public:
  static std::int64_t padded(std::int64_t count) {
    return round_up(count, 64 / static_cast<std::int64_t>(sizeof(A)));
  }
  explicit ScratchParts(A* begin) : next_(begin) {}
  A* take(std::int64_t count) {
    A* const part = next_;
    next_ += padded(count);
    return part;
  }

 private:
  A* next_;
};

// Threads worth starting for `tasks` tasks of `cost` nanoseconds each.
inline std::int64_t slots_for(const CpuContext& ctx, std::int64_t tasks, std::int64_t cost) {
  return part_count(ctx.threads, tasks, ceil_div(ctx.thread_work, std::max<std::int64_t>(cost, 1)));
}

// Calls f(task, slot) for every task in [0, count); tasks with one slot run one after the other. Threads take
// the next task when they are free, so f must write the same whichever slot it gets.
template <class F>
void for_each_task(std::int64_t slots, std::int64_t count, F&& f) {
  std::atomic<std::int64_t> next{0};
  parallel_for(static_cast<int>(slots), slots, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot)
      for (std::int64_t task = next++; task < count; task = next++) f(task, slot);
  });
}

}  // namespace fivefold::cpu
