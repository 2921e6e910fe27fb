// The split of packed rows, its gradient and rotary alone in packs of 16 bytes. A lane has two packs of a
// head, both sides of the pairs that rotary turns, and the same two of the next head, so the table is read
// once for both. A block has heads of q, of k or of v only.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/split_qkv.cuh"

namespace fivefold::cuda {

namespace {

// Two packs of a head as numbers.
template <class T>
struct Two {
  static constexpr int N = kPackOf<T>;
  using A = Accum<T>;
  A at[2 * N];

  __device__ Two() = default;
  template <class From>
  __device__ Two(const Pack<From, N>& a, const Pack<From, N>& b) {
#pragma unroll
    for (int l = 0; l < N; ++l) {
      at[l] = widen<A>(a.at[l]);
      at[N + l] = widen<A>(b.at[l]);
    }
  }
  // Turns N pairs: (l, N + l), or (2 l, 2 l + 1).
  template <bool Interleaved>
  __device__ void turn(const Pack<A, N>& cos, const Pack<A, N>& sin, A direction) {
#pragma unroll
    for (int l = 0; l < N; ++l) {
      A &first = at[Interleaved ? 2 * l : l], &second = at[Interleaved ? 2 * l + 1 : N + l];
      const A a = first, b = second, c = cos.at[l], s = direction * sin.at[l];
      first = a * c - b * s;
      second = b * c + a * s;
    }
  }
  __device__ Pack<T, N> half(int which) const {
    Pack<T, N> out;
#pragma unroll
    for (int l = 0; l < N; ++l) out.at[l] = narrow<T>(at[which * N + l]);
    return out;
  }
};

// One of q, k and v.
template <class T, class W>
struct Part {
  T* data;                   // [rows, heads, hd]
  const W* weight;           // [hd], null: no norm
  Accum<T>* rstd;            // [rows, heads]
  Accum<T>* sums;            // [blocks, hd]: what a block adds to the gradient of the weight
  int heads, first;          // first: head of a packed row
  int pairs, slots, blocks;  // pairs of heads in a row, in all rows
  bool turned;
};

template <class T, class W>
struct Parts {
  Part<T, W> q, k, v;
  const T* packed;
  T* d_packed;
  RotaryTable<Accum<T>> table;
  int dim, heads;
  Accum<T> eps, direction;

  unsigned blocks() const { return static_cast<unsigned>(q.blocks + k.blocks + v.blocks); }
};

// The lanes of a head and where the two packs of a lane are.
template <int N, bool Interleaved>
struct Lanes {
  int half, count, mine, first, second;

  __device__ Lanes(int dim, int half_of_turned)
      : half(half_of_turned),
        count(dim / (2 * N)),
        mine(static_cast<int>(threadIdx.x) % count),
        first(start(mine, 0)),
        second(start(mine, 1)) {}
  // Element of a head where pack `which` of a lane starts.
  __device__ int start(int lane, int which) const {
    const bool apart = lane * N < half && !Interleaved;
    return apart ? lane * N + which * half : (2 * lane + which) * N;
  }
  // Sum over the lanes of a head; every lane of the warp calls it.
  template <class A>
  __device__ A join(A x) const {
    for (int step = count / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
  }
};

constexpr int kPackThreads = 256, kHeads = 2;  // heads of a thread

// Adds up over the threads of a block that have the same packs of heads.
template <class T, class L>
__device__ void store_weight_sums(const Two<T>& mine, const L& lanes, Accum<T>* to) {
  constexpr int N = kPackOf<T>;
  __shared__ Accum<T> sums[2 * N][kPackThreads];
#pragma unroll
  for (int l = 0; l < 2 * N; ++l) sums[l][threadIdx.x] = mine.at[l];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 2 * N * lanes.count; i += kPackThreads) {
    const int lane = i % lanes.count, l = i / lanes.count;
    Accum<T> total = 0;
    for (int t = lane; t < kPackThreads; t += lanes.count) total += sums[l][t];
    to[lanes.start(lane, l / N) + l % N] = total;
  }
}

// Splits: packed rows to q, k, v; otherwise back. Heads behind the last are read as the last: loads without
// conditions stay whole in registers.
template <bool Splits, bool Norm, bool Interleaved, class T, class W>
__global__ void __launch_bounds__(kPackThreads, Norm ? (Splits ? 3 : 2) : 4)
    move_heads(const __grid_constant__ Parts<T, W> op) {
  using A = Accum<T>;
  constexpr int N = kPackOf<T>;
  const int block = static_cast<int>(blockIdx.x), to_k = op.q.blocks, to_v = to_k + op.k.blocks;
  const Part<T, W> part = block < to_k ? op.q : block < to_v ? op.k : op.v;
  const int mine = block - (block < to_k ? 0 : block < to_v ? to_k : to_v);
  const Lanes<N, Interleaved> lanes(op.dim, static_cast<int>(op.table.half));
  const int of_block = kPackThreads / lanes.count;
  const bool turns = part.turned && lanes.mine * N < lanes.half, norms = Norm && part.weight;
  Pack<W, N> weight[2] = {};
  if (norms) {
    weight[0] = load<N>(part.weight + lanes.first);
    weight[1] = load<N>(part.weight + lanes.second);
  }
  Two<T> sums{};
  for (int base = mine * of_block; base < part.slots; base += part.blocks * of_block) {
    const int slot = base + static_cast<int>(threadIdx.x) / lanes.count, here = min(slot, part.slots - 1);
    const int row = here / part.pairs, head = (here - row * part.pairs) * kHeads;
    const std::int64_t at_table = turns ? op.table.position[row] * op.table.half + lanes.mine * N : 0;
    std::int64_t packed_at[kHeads], at[kHeads];
    Pack<T, N> packed[kHeads][2], apart[kHeads][2];
#pragma unroll
    for (int u = 0; u < kHeads; ++u) {
      const int h = min(head + u, part.heads - 1);
      packed_at[u] = static_cast<std::int64_t>(row * op.heads + part.first + h) * op.dim;
      at[u] = row * part.heads + h;
      if constexpr (Splits || Norm) {
        packed[u][0] = load<N>(op.packed + packed_at[u] + lanes.first);
        packed[u][1] = load<N>(op.packed + packed_at[u] + lanes.second);
      }
      if constexpr (!Splits) {
        apart[u][0] = load<N>(part.data + at[u] * op.dim + lanes.first);
        apart[u][1] = load<N>(part.data + at[u] * op.dim + lanes.second);
      }
    }
    Pack<A, N> cos, sin;
    if (turns) {
      cos = load<N>(op.table.cos + at_table);
      sin = load<N>(op.table.sin + at_table);
    }
#pragma unroll
    for (int u = 0; u < kHeads; ++u) {
      const bool counts = slot < part.slots && head + u < part.heads;
      Two<T> x = Splits ? Two<T>(packed[u][0], packed[u][1]) : Two<T>(apart[u][0], apart[u][1]);
      if (!Splits && turns) x.template turn<Interleaved>(cos, sin, op.direction);
      if (norms) {
        const Two<T> in(packed[u][0], packed[u][1]), w(weight[0], weight[1]);
        A sum = 0, rstd = Splits ? A(0) : part.rstd[at[u]];
#pragma unroll
        for (int l = 0; l < 2 * N; ++l) {
          const A normal = in.at[l] * rstd;
          sum += Splits ? in.at[l] * in.at[l] : x.at[l] * w.at[l] * normal;
          if (!Splits && counts) sums.at[l] += x.at[l] * normal;
        }
        sum = lanes.join(sum) / static_cast<A>(op.dim);
        if (Splits) rstd = A(1) / root_of(sum + op.eps);
        if (Splits && counts && lanes.mine == 0) part.rstd[at[u]] = rstd;
#pragma unroll
        for (int l = 0; l < 2 * N; ++l)
          x.at[l] = Splits ? x.at[l] * (rstd * w.at[l]) : rstd * (x.at[l] * w.at[l] - in.at[l] * rstd * sum);
      }
      if (Splits && turns) x.template turn<Interleaved>(cos, sin, op.direction);
      if (!counts) continue;
      T* const to = Splits ? part.data + at[u] * op.dim : op.d_packed + packed_at[u];
      store(to + lanes.first, x.half(0));
      store(to + lanes.second, x.half(1));
    }
  }
  if (!Splits && norms) store_weight_sums(sums, lanes, part.sums + static_cast<std::int64_t>(mine) * op.dim);
}

// True where a head is a power of two of lanes, at most a warp, and rotary turns whole packs.
template <class T, class W>
bool heads_in_packs(const Split<T, W>& op) {
  constexpr std::int64_t N = kPackOf<T>;
  const std::int64_t lanes = op.dim / (2 * N), most = std::int64_t{1} << 30;
  return op.dim % (2 * N) == 0 && lanes <= 32 && (lanes & (lanes - 1)) == 0 && op.table.half % N == 0 &&
         op.rows * (op.q.heads + op.k.heads + op.v.heads) < most &&
         packs_aligned({op.packed, op.d_packed, op.q.data, op.k.data, op.v.data, op.q.weight, op.k.weight,
                        op.table.cos, op.table.sin});
}

template <class T, class W>
Part<T, W> part_of(const Section<T, W>& section, std::int64_t first, std::int64_t rows, std::int64_t dim) {
  const auto number = [](std::int64_t x) { return static_cast<int>(x); };
  const std::int64_t pairs = ceil_div(section.heads, kHeads), lanes = dim / (2 * kPackOf<T>);
  return {section.data,  section.weight,        section.rstd,
          nullptr,       number(section.heads), number(first),
          number(pairs), number(rows * pairs),  number(ceil_div(rows * pairs * lanes, kPackThreads)),
          true};
}

template <class T, class W>
Parts<T, W> parts_of(const Split<T, W>& op, Accum<T> direction) {
  const std::int64_t k = op.q.heads, v = k + op.k.heads, all = v + op.v.heads;
  Parts<T, W> parts{part_of(op.q, 0, op.rows, op.dim),
                    part_of(op.k, k, op.rows, op.dim),
                    part_of(op.v, v, op.rows, op.dim),
                    op.packed,
                    op.d_packed,
                    op.table,
                    static_cast<int>(op.dim),
                    static_cast<int>(all),
                    op.eps,
                    direction};
  parts.v.turned = false;
  return parts;
}

template <bool Splits, bool Norm, class T, class W>
void queue(const Parts<T, W>& op, const CudaContext& ctx) {
  auto* const kernel =
      op.table.interleaved ? move_heads<Splits, Norm, true, T, W> : move_heads<Splits, Norm, false, T, W>;
  kernel<<<op.blocks(), kPackThreads, 0, ctx.stream>>>(op);
  FF_CUDA(cudaGetLastError());
}

}  // namespace

template <class T, class W>
bool split_in_packs(const Split<T, W>& split, const CudaContext& ctx) {
  if (!heads_in_packs(split)) return false;
  const auto parts = parts_of(split, Accum<T>(1));
  split.q.weight ? queue<true, true>(parts, ctx) : queue<true, false>(parts, ctx);
  return true;
}

template <class T, class W>
bool join_in_packs(const Split<T, W>& split, Accum<T>* d_q_weight, Accum<T>* d_k_weight,
                   const CudaContext& ctx) {
  constexpr int kMostBlocks = 512;  // of a part whose sums are kept
  if (!heads_in_packs(split)) return false;
  auto parts = parts_of(split, Accum<T>(-1));
  if (!split.q.weight) {
    queue<false, false>(parts, ctx);
    return true;
  }
  parts.q.blocks = std::min(parts.q.blocks, kMostBlocks);
  parts.k.blocks = std::min(parts.k.blocks, kMostBlocks);
  parts.q.sums = ctx.room<Accum<T>>((parts.q.blocks + parts.k.blocks) * split.dim);
  parts.k.sums = parts.q.sums + parts.q.blocks * split.dim;
  queue<false, true>(parts, ctx);
  queue_add_partials(parts.q.sums, parts.q.blocks, split.dim, split.dim, d_q_weight, ctx);
  queue_add_partials(parts.k.sums, parts.k.blocks, split.dim, split.dim, d_k_weight, ctx);
  return true;
}

template <class T>
bool turn_in_packs(const T* x, T* y, std::int64_t rows, std::int64_t heads, std::int64_t dim,
                   const RotaryTable<Accum<T>>& table, Accum<T> direction, const CudaContext& ctx) {
  const Split<T, T> only_q{{y, nullptr, nullptr, heads}, {}, {}, x, nullptr, table, rows, dim, 0};
  if (!heads_in_packs(only_q)) return false;
  queue<true, false>(parts_of(only_q, direction), ctx);
  return true;
}

#define FF_SPLITS(T, W)                                                 \
  template bool split_in_packs(const Split<T, W>&, const CudaContext&); \
  template bool join_in_packs(const Split<T, W>&, Accum<T>*, Accum<T>*, const CudaContext&)
FF_SPLITS(double, double);
FF_SPLITS(float, float);
FF_SPLITS(__nv_bfloat16, __nv_bfloat16);
FF_SPLITS(__nv_bfloat16, float);
#undef FF_SPLITS

#define FF_TURN(T)                                                                    \
  template bool turn_in_packs(const T*, T*, std::int64_t, std::int64_t, std::int64_t, \
                              const RotaryTable<Accum<T>>&, Accum<T>, const CudaContext&)
FF_TURN(double);
FF_TURN(float);
FF_TURN(__nv_bfloat16);
#undef FF_TURN

}  // namespace fivefold::cuda
