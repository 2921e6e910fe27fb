// Optimizer arithmetic over all parameters at once: squared sums in a fixed order, the shared factors of a
// step, and AdamW. Nothing of it comes to the host.
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda/launch_rows.cuh"
#include "kernels/cuda/stored_master.cuh"

namespace fivefold::cuda {

namespace {

constexpr int kPack = 4;  // elements a thread takes at once

// Elements of a block. Of the squares it also fixes the order of addition.
constexpr std::int64_t kSquareChunk = 32768, kUpdateChunk = 8192;

struct SquareRow {
  const void* x;
  std::int64_t count;
  std::int32_t first, index;  // of the sum
  bool packed;
};

__device__ __forceinline__ double square(double x) { return x * x; }

// partial[chunk] = sum of squares of the chunk. The same elements are a thread's at any address.
template <class T>
__global__ void __launch_bounds__(kThreads)
    squares(const __grid_constant__ RowTable<SquareRow> table, double* partial) {
  const auto chunk = static_cast<std::int32_t>(blockIdx.x);
  const SquareRow& row = table.of(chunk);
  const bool packed = row.packed;
  const T* const x = static_cast<const T*>(row.x) + (chunk - row.first) * kSquareChunk;
  const auto n = static_cast<int>(min(kSquareChunk, row.count - (chunk - row.first) * kSquareChunk));
  double sum = 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) * kPack; i <= n - kPack; i += kThreads * kPack) {
    const auto pack = load_as<double, kPack>(x + i, packed);
#pragma unroll
    for (int l = 0; l < kPack; ++l) sum += square(pack.at[l]);
  }
  const int i = n / kPack * kPack + static_cast<int>(threadIdx.x);
  if (i < n) sum += square(widen<double>(x[i]));
  sum = join_block(sum);
  if (threadIdx.x == 0) partial[chunk] = sum;
}

// sums[index] += the partial sums of block's row.
__global__ void add_squares(const __grid_constant__ RowTable<SquareRow> table, const double* partial,
                            double* sums) {
  const auto r = static_cast<int>(blockIdx.x);
  const int end = r + 1 < table.rows ? table.row[r + 1].first : table.chunks;
  double mine = 0;
  for (int i = table.row[r].first + static_cast<int>(threadIdx.x); i < end; i += kThreads) mine += partial[i];
  mine = join_block(mine);
  if (threadIdx.x == 0) sums[table.row[r].index] += mine;
}

__global__ void step_control(const double* sums, std::int64_t count, double clip, double* control) {
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += sums[i];
  const bool finite = isfinite(total);
  const double norm = sqrt(total), limited = clip / (norm + 1e-6);
  control[StepControl::kNorm] = norm;
  control[StepControl::kFactor] = clip > 0 && limited < 1.0 ? limited : 1.0;
  control[StepControl::kApply] = finite ? 1.0 : 0.0;
  control[StepControl::kStep] += finite ? 1.0 : 0.0;
  control[StepControl::kSkipped] += finite ? 0.0 : 1.0;
}

struct AdamWRow {
  WeightPointers weight;
  const void* gradient;
  void *m, *v;
  std::int64_t count;
  double decay;
  std::int32_t first;
  bool packed;
};

struct AdamWScalars {
  const double* control;
  double lr, beta1, beta2, eps;
};

// All factors of a step, in the type of the arithmetic.
template <class T>
struct AdamWFactors {
  T lr, beta1, beta2, eps, factor, correction1, correction2;  // correction = 1 / (1 - beta^t)

  AdamWFactors() = default;
  __device__ explicit AdamWFactors(const AdamWScalars& s)
      : lr(static_cast<T>(s.lr)),
        beta1(static_cast<T>(s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        eps(static_cast<T>(s.eps)),
        factor(static_cast<T>(s.control[StepControl::kFactor])),
        correction1(static_cast<T>(1.0 / (1.0 - pow(s.beta1, s.control[StepControl::kStep])))),
        correction2(static_cast<T>(1.0 / (1.0 - pow(s.beta2, s.control[StepControl::kStep])))) {}
};

// W: how the weight is stored. G, M: of gradient and moments. N elements from i on.
template <class W, class G, class M, int N>
__device__ __forceinline__ void update(const AdamWRow& row, const AdamWFactors<typename W::Number>& s,
                                       std::int64_t i, bool packed) {
  using T = typename W::Number;
  const W weight(row.weight);
  M* const m_at = static_cast<M*>(row.m) + i;
  M* const v_at = static_cast<M*>(row.v) + i;
  const T decay = static_cast<T>(row.decay);
  auto p = weight.template number<N>(i, packed);
  const auto gradient = load_as<T, N>(static_cast<const G*>(row.gradient) + i, packed);
  auto m = load_as<T, N>(m_at, packed), v = load_as<T, N>(v_at, packed);
#pragma unroll
  for (int l = 0; l < N; ++l) {
    const T g = s.factor * gradient.at[l];
    m.at[l] = s.beta1 * m.at[l] + (1 - s.beta1) * g;
    v.at[l] = s.beta2 * v.at[l] + (1 - s.beta2) * g * g;
    const T direction = m.at[l] * s.correction1 / (root_of(v.at[l] * s.correction2) + s.eps);
    p.at[l] -= s.lr * (direction + decay * p.at[l]);
  }
  weight.template put<N>(i, p, packed);
  store_as(m_at, m, packed);
  store_as(v_at, v, packed);
}

template <class W, class G, class M>
__global__ void __launch_bounds__(kThreads)
    adamw(const __grid_constant__ RowTable<AdamWRow> table, const AdamWScalars scalars) {
  using T = typename W::Number;
  __shared__ AdamWFactors<T> shared;
  if (scalars.control[StepControl::kApply] == 0.0) return;
  if (threadIdx.x == 0) shared = AdamWFactors<T>(scalars);
  const auto chunk = static_cast<std::int32_t>(blockIdx.x);
  const AdamWRow& row = table.of(chunk);
  const bool packed = row.packed;
  const std::int64_t begin = (chunk - row.first) * kUpdateChunk, end = min(begin + kUpdateChunk, row.count);
  __syncthreads();
  const AdamWFactors<T> factors = shared;
  for (auto i = begin + threadIdx.x * kPack; i <= end - kPack; i += kThreads * kPack)
    update<W, G, M, kPack>(row, factors, i, packed);
  const auto i = begin + (end - begin) / kPack * kPack + threadIdx.x;
  if (i < end) update<W, G, M, 1>(row, factors, i, true);
}

// Calls f(Form<T>) or f(Form<bf16>): state of arithmetic in T may be stored in bf16 where T is float.
template <class T, class F>
void with_state(DType dtype, F&& f) {
  if constexpr (std::is_same_v<T, float>)
    if (dtype == DType::bf16) return f(Form<__nv_bfloat16>{});
  f(Form<T>{});
}

// Calls f(Form<W>, Form<G>, Form<M>) for a part's dtypes.
template <class F>
void with_types(const AdamW::Part& part, F&& f) {
  with_master(part.weight, [&]<class W>(Form<W> weight) {
    using T = typename W::Number;
    with_state<T>(part.gradient.dtype(), [&](auto gradient) {
      with_state<T>(part.m.dtype(), [&](auto moments) { f(weight, gradient, moments); });
    });
  });
}

// Parts that one kernel takes.
bool alike(const AdamW::Part& a, const AdamW::Part& b) {
  const auto same = [](const Tensor& x, const Tensor& y) {
    return static_cast<bool>(x) == static_cast<bool>(y) && (!x || x.dtype() == y.dtype());
  };
  return same(a.weight.master, b.weight.master) && same(a.weight.copy, b.weight.copy) &&
         same(a.gradient, b.gradient) && same(a.m, b.m);
}

AdamWRow row_of(const AdamW::Part& part) {
  const bool packed =
      packs_aligned(part.weight) && packs_aligned({part.gradient.raw(), part.m.raw(), part.v.raw()});
  return {.weight = WeightPointers(part.weight),
          .gradient = part.gradient.raw(),
          .m = part.m.raw(),
          .v = part.v.raw(),
          .count = part.m.count(),
          .decay = part.weight_decay,
          .first = 0,
          .packed = packed};
}

// Queues parts that are alike.
void queue(const AdamW& op, std::span<const AdamW::Part* const> parts, const CudaContext& ctx) {
  std::vector<AdamWRow> rows;
  for (const auto* part : parts) rows.push_back(row_of(*part));
  const AdamWScalars scalars{elements<double>(op.control), op.lr, op.beta1, op.beta2, op.eps};
  with_types(*parts.front(), [&]<class W, class G, class M>(Form<W>, Form<G>, Form<M>) {
    for_row_tables<kUpdateChunk>(rows, [&](const RowTable<AdamWRow>& table) {
      adamw<W, G, M><<<static_cast<unsigned>(table.chunks), kThreads, 0, ctx.stream>>>(table, scalars);
      FF_CUDA(cudaGetLastError());
    });
  });
}

// Queues parts of one dtype. Tables follow each other on the stream, so they share the partial sums.
template <class T>
void queue_squares(const std::vector<SquareRow>& rows, double* sums, const CudaContext& ctx) {
  std::int64_t most = 0;
  for_row_tables<kSquareChunk>(rows,
                               [&](const auto& table) { most = std::max<std::int64_t>(most, table.chunks); });
  double* const partial = ctx.room<double>(most);
  for_row_tables<kSquareChunk>(rows, [&](const RowTable<SquareRow>& table) {
    squares<T><<<static_cast<unsigned>(table.chunks), kThreads, 0, ctx.stream>>>(table, partial);
    FF_CUDA(cudaGetLastError());
    add_squares<<<static_cast<unsigned>(table.rows), kThreads, 0, ctx.stream>>>(table, partial, sums);
    FF_CUDA(cudaGetLastError());
  });
}

}  // namespace

void execute(const SquaredSum& op, const CudaContext& ctx) {
  for (const auto dtype : {DType::f64, DType::f32, DType::bf16}) {
    std::vector<SquareRow> rows;
    for (const auto& part : op.parts)
      if (part.x.dtype() == dtype)
        rows.push_back({.x = part.x.raw(),
                        .count = part.x.count(),
                        .first = 0,
                        .index = static_cast<std::int32_t>(part.index),
                        .packed = packs_aligned({part.x.raw()})});
    if (!rows.empty())
      with_device_float(dtype, [&]<class T>(T) { queue_squares<T>(rows, elements<double>(op.sums), ctx); });
  }
}

void execute(const StepControl& op, const CudaContext& ctx) {
  step_control<<<1, 1, 0, ctx.stream>>>(elements<double>(op.sums), op.sums.count(), op.clip,
                                        elements<double>(op.control));
  FF_CUDA(cudaGetLastError());
}

void execute(const AdamW& op, const CudaContext& ctx) {
  std::vector<const AdamW::Part*> left;
  for (const auto& part : op.parts) left.push_back(&part);
  while (!left.empty()) {
    const auto* first = left.front();
    const auto others = std::stable_partition(left.begin(), left.end(),
                                              [&](const auto* part) { return alike(*part, *first); });
    queue(op, {left.begin(), others}, ctx);
    left.erase(left.begin(), others);
  }
}

}  // namespace fivefold::cuda
