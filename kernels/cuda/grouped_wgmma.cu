// Products of groups of bf16 rows on Hopper's tensor cores. A block stays and takes tiles of 128 x 256 of all
// groups in turn: one thread copies both operands through four stages of shared memory, two warp groups
// multiply 64 rows each. Every sum has one order, from the first inner index to the last.
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda/products.cuh"
#include "kernels/cuda/tensor_map.cuh"
#include "kernels/cuda/wide_products.cuh"

namespace fivefold::cuda {

namespace {

constexpr int kDown = 128, kAcross = 256, kInner = 64, kStages = 4;
constexpr int kBox = 64 * 128;  // bytes of 64 rows of 64 elements
constexpr int kBoxesA = kDown / 64, kBoxesB = kAcross / 64, kStageBytes = (kBoxesA + kBoxesB) * kBox;
constexpr int kWorkers = 256, kAllThreads = kWorkers + 128;
constexpr int kPanel = 8;  // tiles down that share columns in the second-level cache

// forward: c = a b^T, input_gradient: c = a b, weight_gradient: c = a^T b, all over the rows of a group.
enum class Product : std::uint8_t { forward, input_gradient, weight_gradient };

template <class C>
struct Operands {
  const std::int32_t* offsets;
  C* c;
  int groups, m, n, k;  // of a group; m of forward and input_gradient and k of weight_gradient vary
  float beta;
};

// The tiles of all groups in one count, taken in ascending order.
template <Product P, class C>
class Tiles {
 public:
  __device__ explicit Tiles(const Operands<C>& op) : op_(op), across_((op.n + kAcross - 1) / kAcross) {
    enter(0);
  }
  // Goes to tile t; false behind the last.
  __device__ bool find(int t) {
    while (group < op_.groups && t >= first_ + down_ * across_) {
      first_ += down_ * across_;
      enter(group + 1);
    }
    const int i = t - first_, panel = i / (kPanel * across_), top = panel * kPanel, left = i - top * across_,
              height = min(kPanel, down_ - top);
    if (group == op_.groups) return false;
    row = (top + left % height) * kDown;
    column = left / height * kAcross;
    return true;
  }
  __device__ int height() const { return P == Product::weight_gradient ? op_.m : rows; }
  __device__ int steps() const {
    return ((P == Product::weight_gradient ? rows : op_.k) + kInner - 1) / kInner;
  }

  int group = 0, begin = 0, rows = 0;  // the group's rows: first, how many
  int row = 0, column = 0;             // of c in the group, where the tile starts

 private:
  __device__ void enter(int g) {
    group = g;
    if (g == op_.groups) return;
    begin = op_.offsets[g];
    rows = op_.offsets[g + 1] - begin;
    down_ = (height() + kDown - 1) / kDown;
  }

  const Operands<C>& op_;
  int across_, down_ = 0, first_ = 0;
};

struct Shared {
  unsigned char* stages;
  Barrier *full, *empty;
  __device__ unsigned char* a(int stage) const { return stages + stage * kStageBytes; }
  __device__ unsigned char* b(int stage) const { return a(stage) + kBoxesA * kBox; }
};

template <Product P, class C>
__device__ void copy_operands(const CUtensorMap& map_a, const CUtensorMap& map_b, const Operands<C>& op,
                              const Shared& shared) {
  Ring<kStages> at;
  Tiles<P, C> tile(op);
  for (int t = static_cast<int>(blockIdx.x); tile.find(t); t += static_cast<int>(gridDim.x)) {
    for (int s = 0; s < tile.steps(); ++s, at.advance()) {
      Barrier* const full = shared.full + at.stage;
      unsigned char *const a = shared.a(at.stage), *const b = shared.b(at.stage);
      wait_barrier(shared.empty + at.stage, at.parity ^ 1);
      arrive_for_bytes(full, kStageBytes);
      const int inner = s * kInner;
      if constexpr (P == Product::weight_gradient)
        for (int i = 0; i < kBoxesA; ++i)
          copy_box(map_a, tile.row + 64 * i, tile.begin + inner, a + i * kBox, full);
      else
        copy_box(map_a, inner, tile.begin + tile.row, a, full);
      if constexpr (P == Product::forward)
        copy_box(map_b, inner, tile.group * op.n + tile.column, b, full);
      else
        for (int i = 0; i < kBoxesB; ++i)
          copy_box(map_b, tile.column + 64 * i,
                   inner + (P == Product::weight_gradient ? tile.begin : tile.group * op.k), b + i * kBox,
                   full);
    }
  }
}

// Zeros the inner indices from `count` on in all boxes of a stage: they are rows of another group. By all
// workers.
__device__ void clear_behind(unsigned char* stage, int count) {
  constexpr int kPacks = 128 / 16;
  const int packs = (kInner - count) * kPacks;
  for (int i = static_cast<int>(threadIdx.x); i < packs * (kBoxesA + kBoxesB); i += kWorkers)
    *reinterpret_cast<int4*>(stage + i / packs * kBox + (count * kPacks + i % packs) * 16) = int4{};
  publish_writes();
  sync_named(1, kWorkers);
}

template <Product P>
__device__ __forceinline__ void multiply_stage(const unsigned char* a, const unsigned char* b,
                                               float (&sum)[128]) {
  constexpr bool kOuterA = P == Product::weight_gradient, kOuterB = P != Product::forward;
  constexpr int kStepA = kOuterA ? 16 * 128 : 32, kStepB = kOuterB ? 16 * 128 : 32;  // bytes for 16 indices
  begin_products();
#pragma unroll
  for (int i = 0; i < kInner / 16; ++i)
    multiply_64x256x16<kOuterA, kOuterB>(sum, operand(a + i * kStepA, 0, 64), operand(b + i * kStepB, 0, 64));
  end_products();
}

// Lane q of four holds words of columns 2 q in blocks 0 to 3 of 8 columns; after this all words of block q.
__device__ __forceinline__ void exchange_blocks(std::uint32_t (&word)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? word[i] : word[i + 1], 1);
    (odd ? word[i] : word[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t got = __shfl_xor_sync(0xffffffffu, high ? word[i] : word[i + 2], 2);
    (high ? word[i] : word[i + 2]) = got;
  }
}

// Where the sums of a warp group go: 64 x 256 elements from `at` on, of which `rows` and `columns` are there.
template <class C>
struct Target {
  C* at;
  int ld, rows, columns;
  float beta;
};

// Asks for the memory that will be added to.
template <class C>
__device__ __forceinline__ void prefetch_target(const Target<C>& to) {
  constexpr int kLine = 128 / sizeof(C), kLines = kAcross / kLine;
  for (int i = static_cast<int>(threadIdx.x) % 128; i < 64 * kLines; i += 128) {
    const int row = i / kLines, column = i % kLines * kLine;
    if (row < to.rows && column < to.columns)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(to.at + static_cast<std::int64_t>(row) * to.ld + column));
  }
}

// Element 4 j + 2 h + e of a lane's sums: row lane / 4 + 8 h of its warp's 16, column 8 j + 2 (lane % 4) + e.
template <class C>
__device__ __forceinline__ void store_sums(float (&sum)[128], const Target<C>& to) {
  const int lane = static_cast<int>(threadIdx.x) % 32, q = lane % 4;
  const int first = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first + 8 * h;
    C* const line = to.at + static_cast<std::int64_t>(row) * to.ld;
    const auto here = [&](int j) { return row < to.rows && 8 * j < to.columns; };
    const auto pair = [&](int j) -> float* { return sum + 4 * j + 2 * h; };
    if constexpr (std::is_same_v<C, float>)
      if (to.beta == 1) {  // one addition to each element, so there is no order to keep
#pragma unroll
        for (int j = 0; j < 32; ++j)
          if (here(j)) add_to_memory(line + 8 * j + 2 * q, pair(j)[0], pair(j)[1]);
        continue;
      }
    if (to.beta != 0) {
      Pack<C, 2> before[32];
#pragma unroll
      for (int j = 0; j < 32; ++j)
        if (here(j)) before[j] = load<2>(line + 8 * j + 2 * q);
#pragma unroll
      for (int j = 0; j < 32; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) pair(j)[e] += to.beta * widen<float>(before[j].at[e]);
    }
    if constexpr (std::is_same_v<C, float>) {
#pragma unroll
      for (int j = 0; j < 32; ++j)
        if (here(j)) store(line + 8 * j + 2 * q, Pack<float, 2>{pair(j)[0], pair(j)[1]});
    } else {
#pragma unroll
      for (int j = 0; j < 32; j += 4) {
        std::uint32_t word[4];
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          const __nv_bfloat162 two = __floats2bfloat162_rn(pair(j + b)[0], pair(j + b)[1]);
          word[b] = *reinterpret_cast<const std::uint32_t*>(&two);
        }
        exchange_blocks(word);
        if (here(j + q))
          *reinterpret_cast<uint4*>(line + 8 * (j + q)) = uint4{word[0], word[1], word[2], word[3]};
      }
    }
  }
}

template <Product P, class C>
__device__ void multiply_tiles(const Operands<C>& op, const Shared& shared) {
  const int group = static_cast<int>(threadIdx.x) / 128;  // of warps: 0 or 1
  const bool leads = threadIdx.x % 32 == 0;
  Ring<kStages> at;
  Tiles<P, C> tile(op);
  for (int t = static_cast<int>(blockIdx.x); tile.find(t); t += static_cast<int>(gridDim.x)) {
    const int row = tile.row + 64 * group;
    const std::int64_t top =
        P == Product::weight_gradient ? static_cast<std::int64_t>(tile.group) * op.m + row : tile.begin + row;
    const Target<C> to{op.c + top * op.n + tile.column, op.n, tile.height() - row, op.n - tile.column,
                       op.beta};
    if (op.beta != 0) prefetch_target(to);
    float sum[128];
#pragma unroll
    for (float& x : sum) x = 0;
    const int steps = tile.steps();
    int before = at.stage;
    for (int s = 0; s < steps; ++s, at.advance()) {
      wait_barrier(shared.full + at.stage, at.parity);
      if (P == Product::weight_gradient && (s + 1) * kInner > tile.rows)
        clear_behind(shared.a(at.stage), tile.rows - s * kInner);
      multiply_stage<P>(shared.a(at.stage) + group * kBox, shared.b(at.stage), sum);
      wait_products<1>();
      if (s > 0 && leads) arrive(shared.empty + before);
      before = at.stage;
    }
    wait_products<0>();
    if (steps > 0 && leads) arrive(shared.empty + before);
    store_sums(sum, to);
  }
}

template <Product P, class C>
__global__ void __launch_bounds__(kAllThreads, 1)
    grouped_products(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ Operands<C> op) {
  extern __shared__ unsigned char room[];
  __shared__ Barrier full[kStages], empty[kStages];
  const Shared shared{room + (1024 - shared_of(room) % 1024) % 1024, full, empty};
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init_barrier(full + s, 1);
      init_barrier(empty + s, kWorkers / 32);
    }
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= kWorkers) {
    leave_registers<40>();
    if (threadIdx.x == kWorkers) copy_operands<P>(map_a, map_b, op, shared);
  } else {
    take_registers<232>();
    multiply_tiles<P>(op, shared);
  }
}

// Boxes of `rows` x 64 elements of a matrix.
CUtensorMap boxes(const Tensor& matrix, int rows) {
  return head_rows_map(matrix.view({matrix.dim(0), 1, matrix.dim(1)}), rows);
}

template <Product P, class C>
void queue(const GroupedGemm& op, const Operands<C>& operands, cudaStream_t stream) {
  constexpr bool kWeight = P == Product::weight_gradient;
  constexpr int kBytes = kStages * kStageBytes + 1024;
  auto* const kernel = grouped_products<P, C>;
  FF_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const auto a = boxes(op.a, kWeight ? 64 : kDown), b = boxes(op.b, P == Product::forward ? kAcross : 64);
  kernel<<<static_cast<unsigned>(multiprocessors()), kAllThreads, kBytes, stream>>>(a, b, operands);
  FF_CUDA(cudaGetLastError());
}

Product product_of(const GroupedGemm& op) {
  if (op.side == GroupedSide::weight) return Product::weight_gradient;
  return op.transpose_b ? Product::forward : Product::input_gradient;
}

template <class C>
void queue_product(const GroupedGemm& op, cudaStream_t stream) {
  const auto number = [](std::int64_t x) { return static_cast<int>(x); };
  const auto product = product_of(op);
  const bool weight = product == Product::weight_gradient;
  const Operands<C> operands{
      elements<std::int32_t>(op.offsets), elements<C>(op.c),   number(op.groups()),
      number(weight ? op.a.dim(1) : 0),   number(op.c.dim(1)), number(weight ? 0 : op.a.dim(1)),
      static_cast<float>(op.beta)};
  if (weight)
    queue<Product::weight_gradient>(op, operands, stream);
  else if (product == Product::forward)
    queue<Product::forward>(op, operands, stream);
  else
    queue<Product::input_gradient>(op, operands, stream);
}

// Indices are 32 bits wide.
bool can_map(const Tensor& matrix) {
  return matrix.dtype() == DType::bf16 && matrix.count() > 0 && matrix.dim(0) < (std::int64_t{1} << 30) &&
         matrix.dim(1) % 8 == 0 && packs_aligned({matrix.raw()});
}

// Rows of another group's b would follow b's own in the last step over the inner index; what they hold need
// not be finite.
bool inner_is_whole(const GroupedGemm& op) {
  return product_of(op) != Product::input_gradient || op.a.dim(1) % kInner == 0;
}

}  // namespace

bool multiply_groups_wide(const GroupedGemm& op, cudaStream_t stream) {
  if (!can_map(op.a) || !can_map(op.b) || !packs_aligned({op.c.raw()}) || op.c.dim(1) % 8 != 0 ||
      op.c.dim(0) >= (std::int64_t{1} << 30) || !inner_is_whole(op) || !has_wgmma())
    return false;
  if (op.c.dtype() == DType::bf16)
    queue_product<__nv_bfloat16>(op, stream);
  else
    queue_product<float>(op, stream);
  return true;
}

}  // namespace fivefold::cuda
