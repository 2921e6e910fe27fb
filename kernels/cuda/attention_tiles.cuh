// What the plain attention kernels share: tiles of 16 Rows queries and as many keys by 256 threads, in the
// arithmetic type, for any head_dim up to 256. Thread (y, x) of 16 x 16 has the queries (or keys) y + 16 r
// and the columns x + 16 c.
#pragma once
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/device.cuh"

namespace fivefold::cuda {

constexpr int kSide = 16;
constexpr std::int64_t kMostDim = 256;

// Rows: of a thread. Columns: of a thread, so heads are at most 16 Columns wide.
template <class T, int RowsOfThread, int ColumnsOfThread>
struct Tiling {
  using Type = T;
  using A = Accum<T>;
  static constexpr int kRows = RowsOfThread, kColumns = ColumnsOfThread, kEdge = kSide * kRows,
                       kPitch = kEdge + 1;
};

// The smaller and the larger end of an index range.
struct IndexRange {
  std::int32_t least, most;
};

// One head of a tensor [rows, heads, width].
template <class T>
struct HeadRows {
  const T* first;
  std::int64_t stride, width;
};
template <class T>
__device__ __forceinline__ HeadRows<T> head_rows(const T* data, std::int64_t heads, std::int64_t head,
                                                 std::int64_t width) {
  return {data + head * width, heads * width, width};
}
// Width of a row in shared memory: odd, so that neighbouring rows lie in neighbouring banks.
__host__ __device__ inline std::int64_t odd(std::int64_t width) { return width | 1; }

// to[i] = by * row begin + i, for `edge` rows; zeros at and beyond row `end`.
template <class T>
__device__ __forceinline__ void load_rows(const HeadRows<T>& from, std::int64_t begin, std::int64_t end,
                                          int edge, Accum<T> by, Accum<T>* to) {
  using A = Accum<T>;
  const int warps = static_cast<int>(blockDim.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < edge; i += warps) {
    const T* const row = from.first + (begin + i) * from.stride;
    const bool here = begin + i < end;
    for (std::int64_t d = lane; d < from.width; d += 32)
      to[i * odd(from.width) + d] = here ? by * widen<A>(row[d]) : A(0);
  }
}

// sum[r][c] = dot product of rows y + 16 r of a and x + 16 c of b.
template <int Rows, class A>
__device__ __forceinline__ void multiply_rows(const A* a, const A* b, std::int64_t width,
                                              A (&sum)[Rows][Rows]) {
  const int y = static_cast<int>(threadIdx.x) / kSide, x = static_cast<int>(threadIdx.x) % kSide;
  const std::int64_t pitch = odd(width);
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < Rows; ++c) sum[r][c] = 0;
#pragma unroll 4
  for (std::int64_t d = 0; d < width; ++d) {
    A left[Rows], right[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      left[r] = a[(y + kSide * r) * pitch + d];
      right[r] = b[(x + kSide * r) * pitch + d];
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
      for (int c = 0; c < Rows; ++c) sum[r][c] += left[r] * right[c];
  }
}

// sum[r][c] += sum over j of weights(j, y + 16 r) rows[j][x + 16 c], with weights at p[j * step + row *
// stride].
template <int Rows, int Columns, class A>
__device__ __forceinline__ void add_weighted(const A* p, int step, int stride, const A* rows,
                                             std::int64_t width, A (&sum)[Rows][Columns]) {
  const int y = static_cast<int>(threadIdx.x) / kSide, x = static_cast<int>(threadIdx.x) % kSide;
  const std::int64_t pitch = odd(width);
#pragma unroll 2
  for (int j = 0; j < kSide * Rows; ++j) {
    A weight[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) weight[r] = p[j * step + (y + kSide * r) * stride];
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      const int column = x + kSide * c;
      const A value = column < width ? rows[j * pitch + column] : A(0);
#pragma unroll
      for (int r = 0; r < Rows; ++r) sum[r][c] += weight[r] * value;
    }
  }
}

// Element (row, column) of an output that holds T or its arithmetic type.
template <class T>
struct EitherOutput {
  void* data;
  bool wide;
  __device__ void write(std::int64_t at, Accum<T> x) const {
    if (wide)
      static_cast<Accum<T>*>(data)[at] = x;
    else
      static_cast<T*>(data)[at] = narrow<T>(x);
  }
  __device__ Accum<T> read(std::int64_t at) const {
    return wide ? static_cast<const Accum<T>*>(data)[at] : widen<Accum<T>>(static_cast<const T*>(data)[at]);
  }
};
template <class T>
EitherOutput<T> either_output(const Tensor& t, DType dtype) {
  return {t.raw(), t.dtype() != dtype};
}

// ranges[i] of the indices [i * edge, ...), a warp each.
inline __global__ void index_ranges(const std::int32_t* least, const std::int32_t* most, std::int64_t count,
                                    int edge, IndexRange* ranges) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * edge;
  const std::int64_t end = begin + edge < count ? begin + edge : count;
  std::int32_t low = INT32_MAX, high = INT32_MIN;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += 32) {
    if (least != most && least[i] > most[i]) continue;  // a query that sees nothing
    low = least[i] < low ? least[i] : low;
    high = most[i] > high ? most[i] : high;
  }
  low = -join_lanes(low == INT32_MAX ? -INT32_MAX : -low, Greatest());
  high = join_lanes(high, Greatest());
  if (threadIdx.x == 0) ranges[blockIdx.x] = {low, high};
}

// True if some key of a tile may be seen by some query of a tile.
__device__ __forceinline__ bool meet(const IndexRange& queries, const IndexRange& keys) {
  return keys.least <= queries.most && queries.least <= keys.most;
}

// Ranges of the tiles of queries and of keys, in scratch.
struct TileRanges {
  IndexRange *queries, *keys;
  std::int64_t query_tiles, key_tiles;
};
template <class Op>
TileRanges queue_ranges(const Op& op, int edge, IndexRange* room, cudaStream_t stream) {
  const std::int64_t queries = op.q.dim(0), keys = op.k.dim(0);
  const TileRanges ranges{room, room + ceil_div(queries, edge), ceil_div(queries, edge),
                          ceil_div(keys, edge)};
  const auto* const k_index = elements<std::int32_t>(op.k_index);
  if (queries > 0)
    index_ranges<<<static_cast<unsigned>(ranges.query_tiles), 32, 0, stream>>>(
        elements<std::int32_t>(op.first_visible), elements<std::int32_t>(op.q_index), queries, edge,
        ranges.queries);
  if (keys > 0)
    index_ranges<<<static_cast<unsigned>(ranges.key_tiles), 32, 0, stream>>>(k_index, k_index, keys, edge,
                                                                             ranges.keys);
  FF_CUDA(cudaGetLastError());
  return ranges;
}

// Calls f(Tiling{}) with the tiling for a dtype and the widest head.
template <class F>
void with_tiling(DType dtype, std::int64_t widest, F&& f) {
  FF_CHECK(widest <= kMostDim, "a head of ", widest, " is wider than ", kMostDim);
  const auto by_width = [&](auto zero) {
    using T = decltype(zero);
    if (widest <= 64) return f(Tiling<T, 4, 4>{});
    if (widest <= 128) return f(Tiling<T, 4, 8>{});
    f(Tiling<T, 2, 16>{});
  };
  if (dtype == DType::f64) return f(Tiling<double, 1, 16>{});
  dtype == DType::f32 ? by_width(float{}) : by_width(__nv_bfloat16{});
}

}  // namespace fivefold::cuda
