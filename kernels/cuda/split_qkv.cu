// Packed rows to q, k, v (norm, then rotary, one rounding at the end) and their gradients back to packed
// rows: a warp a head. Gradients of the norm weights are summed by warp, by block of rows, and block after
// block.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda/split_qkv.cuh"

namespace fivefold::cuda {

namespace {

// Head n of all packed rows, counted through. By value: references to a kernel's operands cost a copy of them
// all.
template <class T, class W>
struct Head {
  using A = Accum<T>;
  std::int64_t t, at;  // row; element in its section's tensor
  T* data;             // of the section
  const W* weight;     // null: no norm
  A* rstd;             // of this head
  bool of_k, turned;

  __device__ Head(const Split<T, W>& op, std::int64_t n) {
    t = n / op.heads();
    std::int64_t h = n - t * op.heads();
    const bool of_q = h < op.q.heads;
    of_k = !of_q && h < op.q.heads + op.k.heads;
    turned = of_q || of_k;
    const std::int64_t heads = of_q ? op.q.heads : of_k ? op.k.heads : op.v.heads;
    h -= of_q ? 0 : of_k ? op.q.heads : op.q.heads + op.k.heads;
    at = (t * heads + h) * op.dim;
    data = of_q ? op.q.data : of_k ? op.k.data : op.v.data;
    weight = of_q ? op.q.weight : of_k ? op.k.weight : nullptr;
    rstd = (of_q ? op.q.rstd : op.k.rstd) + (t * heads + h);
  }
};

template <class T, class W>
__global__ void split_forward(Split<T, W> op) {
  using A = Accum<T>;
  extern __shared__ double shared[];
  const std::int64_t warps = blockDim.x / 32, warp = threadIdx.x / 32, dim = op.dim,
                     count = op.rows * op.heads();
  A* const head = reinterpret_cast<A*>(shared) + warp * dim;
  for (std::int64_t n = blockIdx.x * warps + warp; n < count; n += gridDim.x * warps) {
    const Head<T, W> mine(op, n);
    A squares = 0;
    elements_of_head(dim, [&](std::int64_t i) {
      head[i] = widen<A>(op.packed[n * dim + i]);
      squares += head[i] * head[i];
    });
    if (mine.weight) {
      const A rstd = A(1) / root_of(join_lanes(squares) / static_cast<A>(dim) + op.eps);
      if (threadIdx.x % 32 == 0) *mine.rstd = rstd;
      elements_of_head(dim, [&](std::int64_t i) { head[i] *= rstd * widen<A>(mine.weight[i]); });
    }
    __syncwarp();
    if (mine.turned) op.table.turn(mine.t, A(1), head);
    T* const to = mine.data + mine.at;
    elements_of_head(dim, [&](std::int64_t i) { to[i] = narrow<T>(head[i]); });
    __syncwarp();
  }
}

// Rows [block * rows_of_block, ...) by one block. partial[block]: sums for q_weight [hd], then for k_weight
// [hd]. With n = x rstd: dx = rstd (g w - n mean(g w n)).
template <class T, class W>
__global__ void split_backward(Split<T, W> op, std::int64_t rows_of_block, Accum<T>* partial) {
  using A = Accum<T>;
  extern __shared__ double shared[];
  const std::int64_t warps = blockDim.x / 32, warp = threadIdx.x / 32, dim = op.dim, heads = op.heads();
  A* const room = reinterpret_cast<A*>(shared);
  A *const head = room + warp * 3 * dim, *const sums = head + dim;  // of q, of k
  elements_of_head(2 * dim, [&](std::int64_t i) { sums[i] = 0; });
  const std::int64_t limit = (blockIdx.x + 1) * rows_of_block,
                     end = (limit < op.rows ? limit : op.rows) * heads;
  for (std::int64_t n = blockIdx.x * rows_of_block * heads + warp; n < end; n += warps) {
    const Head<T, W> mine(op, n);
    const T* const from = mine.data + mine.at;
    elements_of_head(dim, [&](std::int64_t i) { head[i] = widen<A>(from[i]); });
    __syncwarp();
    if (mine.turned) op.table.turn(mine.t, A(-1), head);
    if (mine.weight) {
      const A rstd = *mine.rstd;
      A* const sum = sums + (mine.of_k ? dim : 0);
      const auto normal = [&](std::int64_t i) { return widen<A>(op.packed[n * dim + i]) * rstd; };
      A along = 0;
      elements_of_head(dim, [&](std::int64_t i) {
        sum[i] += head[i] * normal(i);
        head[i] *= widen<A>(mine.weight[i]);
        along += head[i] * normal(i);
      });
      along = join_lanes(along) / static_cast<A>(dim);
      elements_of_head(dim, [&](std::int64_t i) { head[i] = rstd * (head[i] - normal(i) * along); });
      // each lane's elements of head are its own from here
    }
    elements_of_head(dim, [&](std::int64_t i) { op.d_packed[n * dim + i] = narrow<T>(head[i]); });
    __syncwarp();
  }
  if (!partial) return;
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < 2 * dim; i += blockDim.x) {
    A total = 0;
    for (std::int64_t w = 0; w < warps; ++w) total += room[w * 3 * dim + dim + i];
    partial[blockIdx.x * 2 * dim + i] = total;
  }
}

template <class T, class W>
void forward(const SplitQkvForward& op, const CudaContext& ctx) {
  using A = Accum<T>;
  auto split = split_of<T, W>(op, op.q, op.k, op.v);
  split.eps = static_cast<A>(op.eps);
  if (op.packed.count() == 0 || split_in_packs(split, ctx)) return;
  const std::int64_t bytes = split.dim * static_cast<std::int64_t>(sizeof(A)),
                     count = op.packed.count() / split.dim;
  const int warps = warps_with(bytes);
  split_forward<<<blocks_for(count, warps), 32 * warps, static_cast<std::size_t>(warps * bytes),
                  ctx.stream>>>(split);
  FF_CUDA(cudaGetLastError());
}

template <class T, class W>
void backward(const SplitQkvBackward& op, const CudaContext& ctx) {
  using A = Accum<T>;
  constexpr std::int64_t kMostBlocks = 1024;
  auto split = split_of<T, W>(op, op.dq, op.dk, op.dv);
  split.d_packed = elements<T>(op.d_packed);
  if (op.d_packed.count() == 0 ||
      join_in_packs(split, elements<A>(op.d_q_weight), elements<A>(op.d_k_weight), ctx))
    return;
  const std::int64_t rows_of_block = ceil_div(split.rows, kMostBlocks),
                     blocks = ceil_div(split.rows, rows_of_block);
  const std::int64_t dim = split.dim, bytes = 3 * dim * static_cast<std::int64_t>(sizeof(A));
  const int warps = warps_with(bytes);
  A* const partial = op.q_weight ? ctx.room<A>(blocks * 2 * dim) : nullptr;
  split_backward<<<static_cast<unsigned>(blocks), 32 * warps, static_cast<std::size_t>(warps * bytes),
                   ctx.stream>>>(split, rows_of_block, partial);
  FF_CUDA(cudaGetLastError());
  if (!partial) return;
  queue_add_partials(partial, blocks, 2 * dim, dim, elements<A>(op.d_q_weight), ctx);
  queue_add_partials(partial + dim, blocks, 2 * dim, dim, elements<A>(op.d_k_weight), ctx);
}

// Calls f(T{}, W{}) with the types of the rows and of the norm weights.
template <class F>
void with_types(DType dtype, const Tensor& weight, F f) {
  with_device_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (weight && weight.dtype() != dtype)
      f(T{}, Accum<T>{});
    else
      f(T{}, T{});
  });
}

}  // namespace

void execute(const SplitQkvForward& op, const CudaContext& ctx) {
  with_types(op.packed.dtype(), op.q_weight,
             [&](auto t, auto w) { forward<decltype(t), decltype(w)>(op, ctx); });
}

void execute(const SplitQkvBackward& op, const CudaContext& ctx) {
  with_types(op.dq.dtype(), op.q_weight,
             [&](auto t, auto w) { backward<decltype(t), decltype(w)>(op, ctx); });
}

}  // namespace fivefold::cuda
