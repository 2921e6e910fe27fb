// The split of packed rows, its gradient and rotary alone in packs of 16 bytes. A lane has two packs of a
// head, both sides of the pairs that rotary turns, and the same two of several heads of a row, so the table
// is read once for all of them.
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

// A head of a row: where it lies in its section's tensor.
template <class T, class W>
struct HeadPlace {
  T* data;
  const W* weight;  // null: no norm
  Accum<T>* rstd;
  bool of_k, turned;

  __device__ HeadPlace(const Split<T, W>& op, std::int64_t row, int h) {
    const auto q_heads = static_cast<int>(op.q.heads), k_heads = static_cast<int>(op.k.heads);
    const bool of_q = h < q_heads;
    of_k = !of_q && h < q_heads + k_heads;
    turned = of_q || of_k;
    const auto& section = of_q ? op.q : of_k ? op.k : op.v;
    const std::int64_t at = row * section.heads + (h - (of_q ? 0 : of_k ? q_heads : q_heads + k_heads));
    data = section.data + at * op.dim;
    weight = section.weight;
    rstd = section.rstd + at;
  }
};

// The lanes of a head and where the two packs of a lane are.
template <class T, class W, bool Interleaved>
struct Lanes {
  static constexpr int N = kPackOf<T>;
  int half, count, mine, first, second;
  bool turned;

  __device__ explicit Lanes(const Split<T, W>& op)
      : half(static_cast<int>(op.table.half)),
        count(static_cast<int>(op.dim) / (2 * N)),
        mine(static_cast<int>(threadIdx.x) % count),
        first(start(mine, 0)),
        second(start(mine, 1)),
        turned(mine * N < half) {}
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

constexpr int kPackThreads = 256;

// Sums for the gradients of the norm weights, [2 hd] a block: of q, of k. By every thread of a block, whose
// threads have the same packs of heads where their lane is the same.
template <class T, class L>
__device__ void store_weight_sums(const Two<T>& of_q, const Two<T>& of_k, const L& lanes, int dim,
                                  Accum<T>* partial) {
  constexpr int N = kPackOf<T>;
  __shared__ Accum<T> sums[4 * N][kPackThreads];
#pragma unroll
  for (int l = 0; l < 2 * N; ++l) {
    sums[l][threadIdx.x] = of_q.at[l];
    sums[2 * N + l][threadIdx.x] = of_k.at[l];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 4 * N * lanes.count; i += kPackThreads) {
    const int lane = i % lanes.count, l = i / lanes.count, pack = l / N;
    Accum<T> total = 0;
    for (int t = lane; t < kPackThreads; t += lanes.count) total += sums[l][t];
    partial[(blockIdx.x * 2 + pack / 2) * dim + lanes.start(lane, pack % 2) + l % N] = total;
  }
}

// Split: packed rows to q, k, v; otherwise back. A slot is a row and Heads of its heads, `slots_of_row`
// apart. partial: see store_weight_sums.
template <int Heads, bool Splits, bool Norm, bool Interleaved, class T, class W>
__global__ void __launch_bounds__(kPackThreads)
    move_heads(Split<T, W> op, int slots_of_row, int slots, Accum<T> direction, Accum<T>* partial) {
  using A = Accum<T>;
  constexpr int N = kPackOf<T>;
  constexpr bool kReadsPacked = Splits || Norm;
  const Lanes<T, W, Interleaved> lanes(op);
  const int heads = static_cast<int>(op.heads()), of_block = kPackThreads / lanes.count;
  Two<T> of_q{}, of_k{};  // sums for the gradients of the norm weights
  for (int base = static_cast<int>(blockIdx.x) * of_block; base < slots; base += gridDim.x * of_block) {
    const int slot = base + static_cast<int>(threadIdx.x) / lanes.count, row = slot / slots_of_row;
    const auto head = [&](int u) { return slot - row * slots_of_row + u * slots_of_row; };
    const auto here = [&](int u) { return slot < slots && head(u) < heads; };
    const auto place = [&](int u) { return HeadPlace<T, W>(op, row, head(u)); };
    const auto packed_at = [&](int u) { return (static_cast<std::int64_t>(row) * heads + head(u)) * op.dim; };
    Pack<T, N> packed[Heads][2] = {}, apart[Heads][2] = {};
    Pack<A, N> cos{}, sin{};
#pragma unroll
    for (int u = 0; u < Heads; ++u) {
      if (!here(u)) continue;
      if constexpr (kReadsPacked) {
        packed[u][0] = load<N>(op.packed + packed_at(u) + lanes.first);
        packed[u][1] = load<N>(op.packed + packed_at(u) + lanes.second);
      }
      if constexpr (!Splits) {
        apart[u][0] = load<N>(place(u).data + lanes.first);
        apart[u][1] = load<N>(place(u).data + lanes.second);
      }
    }
    if (lanes.turned && slot < slots) {
      const std::int64_t at = op.table.position[row] * op.table.half + lanes.mine * N;
      cos = load<N>(op.table.cos + at);
      sin = load<N>(op.table.sin + at);
    }
#pragma unroll
    for (int u = 0; u < Heads; ++u) {
      const auto mine = place(here(u) ? u : 0);
      const Two<T> in(packed[u][0], packed[u][1]);
      Two<T> x = Splits ? in : Two<T>(apart[u][0], apart[u][1]);
      if (!Splits && mine.turned && lanes.turned) x.template turn<Interleaved>(cos, sin, direction);
      if constexpr (Norm) {
        Two<T> weight{};
        if (mine.weight && here(u))
          weight = Two<T>(load<N>(mine.weight + lanes.first), load<N>(mine.weight + lanes.second));
        A sum = 0, rstd = 1;
        if constexpr (!Splits) rstd = mine.weight && here(u) ? *mine.rstd : A(1);
#pragma unroll
        for (int l = 0; l < 2 * N; ++l) {
          if constexpr (Splits) {
            sum += in.at[l] * in.at[l];
          } else {
            const A normal = in.at[l] * rstd, g = x.at[l];
            of_q.at[l] += mine.weight && !mine.of_k && here(u) ? g * normal : A(0);
            of_k.at[l] += mine.weight && mine.of_k && here(u) ? g * normal : A(0);
            sum += g * weight.at[l] * normal;
          }
        }
        sum = lanes.join(sum) / static_cast<A>(op.dim);
        if constexpr (Splits) rstd = A(1) / root_of(sum + op.eps);
#pragma unroll
        for (int l = 0; l < 2 * N && mine.weight; ++l)
          x.at[l] = Splits ? x.at[l] * (rstd * weight.at[l])
                           : rstd * (x.at[l] * weight.at[l] - in.at[l] * rstd * sum);
        if (Splits && mine.weight && here(u) && lanes.mine == 0) *mine.rstd = rstd;
      }
      if (Splits && mine.turned && lanes.turned) x.template turn<Interleaved>(cos, sin, direction);
      if (!here(u)) continue;
      T* const to = Splits ? mine.data : op.d_packed + packed_at(u);
      store(to + lanes.first, x.half(0));
      store(to + lanes.second, x.half(1));
    }
  }
  if constexpr (Norm && !Splits)
    store_weight_sums(of_q, of_k, lanes, static_cast<int>(op.dim), partial);
}

struct Slots {
  int of_row, all;
  unsigned blocks;
};

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

template <int Heads, class T, class W>
Slots slots_of(const Split<T, W>& op) {
  const std::int64_t heads = op.q.heads + op.k.heads + op.v.heads, of_row = ceil_div(heads, Heads),
                     of_block = kPackThreads / (op.dim / (2 * kPackOf<T>));
  return {static_cast<int>(of_row), static_cast<int>(op.rows * of_row),
          static_cast<unsigned>(ceil_div(op.rows * of_row, of_block))};
}

template <bool Splits, class T, class W>
void queue_plain(const Split<T, W>& op, Accum<T> direction, const CudaContext& ctx) {
  constexpr int kHeads = 4;
  const auto slots = slots_of<kHeads>(op);
  auto* const kernel = op.table.interleaved ? move_heads<kHeads, Splits, false, true, T, W>
                                            : move_heads<kHeads, Splits, false, false, T, W>;
  kernel<<<slots.blocks, kPackThreads, 0, ctx.stream>>>(op, slots.of_row, slots.all, direction, nullptr);
  FF_CUDA(cudaGetLastError());
}

template <bool Splits, class T, class W>
void queue_norm(const Split<T, W>& op, unsigned blocks, Accum<T>* partial, const CudaContext& ctx) {
  constexpr int kHeads = 2;
  const auto slots = slots_of<kHeads>(op);
  auto* const kernel = op.table.interleaved ? move_heads<kHeads, Splits, true, true, T, W>
                                            : move_heads<kHeads, Splits, true, false, T, W>;
  kernel<<<std::min(blocks, slots.blocks), kPackThreads, 0, ctx.stream>>>(
      op, slots.of_row, slots.all, Splits ? Accum<T>(1) : Accum<T>(-1), partial);
  FF_CUDA(cudaGetLastError());
}

}  // namespace

template <class T, class W>
bool split_in_packs(const Split<T, W>& split, const CudaContext& ctx) {
  if (!heads_in_packs(split)) return false;
  if (split.q.weight)
    queue_norm<true>(split, ~0u, nullptr, ctx);
  else
    queue_plain<true>(split, Accum<T>(1), ctx);
  return true;
}

template <class T, class W>
bool join_in_packs(const Split<T, W>& split, Accum<T>* d_q_weight, Accum<T>* d_k_weight,
                   const CudaContext& ctx) {
  constexpr unsigned kBlocks = 528;  // four for each multiprocessor of an H200
  if (!heads_in_packs(split)) return false;
  if (!split.q.weight) {
    queue_plain<false>(split, Accum<T>(-1), ctx);
    return true;
  }
  const auto blocks = std::min(kBlocks, slots_of<2>(split).blocks);
  auto* const partial = ctx.room<Accum<T>>(blocks * 2 * split.dim);
  queue_norm<false>(split, blocks, partial, ctx);
  queue_add_partials(partial, blocks, 2 * split.dim, split.dim, d_q_weight, ctx);
  queue_add_partials(partial + split.dim, blocks, 2 * split.dim, split.dim, d_k_weight, ctx);
  return true;
}

template <class T>
bool turn_in_packs(const T* x, T* y, std::int64_t rows, std::int64_t heads, std::int64_t dim,
                   const RotaryTable<Accum<T>>& table, Accum<T> direction, const CudaContext& ctx) {
  const Split<T, T> only_q{{y, nullptr, nullptr, heads}, {}, {}, x, nullptr, table, rows, dim, 0};
  if (!heads_in_packs(only_q)) return false;
  queue_plain<true>(only_q, direction, ctx);
  return true;
}

#define FF_SPLITS(T, W)                                                                                 template bool split_in_packs(const Split<T, W>&, const CudaContext&);                                 template bool join_in_packs(const Split<T, W>&, Accum<T>*, Accum<T>*, const CudaContext&)
FF_SPLITS(double, double);
FF_SPLITS(float, float);
FF_SPLITS(__nv_bfloat16, __nv_bfloat16);
FF_SPLITS(__nv_bfloat16, float);
#undef FF_SPLITS

#define FF_TURN(T)                                                                                          template bool turn_in_packs(const T*, T*, std::int64_t, std::int64_t, std::int64_t,                                                   const RotaryTable<Accum<T>>&, Accum<T>, const CudaContext&)
FF_TURN(double);
FF_TURN(float);
FF_TURN(__nv_bfloat16);
#undef FF_TURN

}  // namespace fivefold::cuda
