// The library is column-major: it is asked for c^T = op(b)^T op(a)^T, whose operands are our rows as they
// lie.
#include <cublasLt.h>

#include <limits>
#include <vector>

#include "core/cuda_check.h"
#include "core/types.h"
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda/products.cuh"
#include "kernels/cuda_backend.h"

namespace fivefold::cuda {

namespace {

constexpr std::int64_t kWorkspace = kCudaWorkspaceBytes;  // 32 MiB, as NVIDIA advises for Hopper

void check_lt(cublasStatus_t status, const char* statement, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(__FILE__, line, statement, cublasGetStatusString(status));
}
#define FF_LT(expr) check_lt((expr), #expr, __LINE__)

cudaDataType_t data_type(DType dtype) {
  return dtype == DType::f64 ? CUDA_R_64F : dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

// The largest power of two up to 256 that divides an address.
std::uint32_t alignment_of(const Tensor& t) {
  const auto address = reinterpret_cast<std::uintptr_t>(t.raw());
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

bool bias_fits(const Gemm& op) {
  return !op.bias ||
         (op.bias.dtype() == op.c.dtype() && op.a.dtype() != DType::f64 && alignment_of(op.bias) >= 16);
}

struct Layout {
  cublasLtMatrixLayout_t it = nullptr;
  // Our rows, which the library sees as columns.
  explicit Layout(const Tensor& t) {
    FF_LT(cublasLtMatrixLayoutCreate(&it, data_type(t.dtype()), static_cast<std::uint64_t>(t.dim(1)),
                                     static_cast<std::uint64_t>(t.dim(0)), t.dim(1)));
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(it); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
};

struct Preference {
  cublasLtMatmulPreference_t it = nullptr;
  Preference() { FF_LT(cublasLtMatmulPreferenceCreate(&it)); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(it); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <class V>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, V value) {
    FF_LT(cublasLtMatmulPreferenceSetAttribute(it, attribute, &value, sizeof(value)));
  }
};

// Where a product runs.
struct Place {
  cublasLtHandle_t handle;
  void* workspace;
  cudaStream_t stream;
};

class Stopwatch {
 public:
  Stopwatch() {
    FF_CUDA(cudaEventCreate(&begin_));
    FF_CUDA(cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void start(cudaStream_t stream) const { FF_CUDA(cudaEventRecord(begin_, stream)); }
  // Of the work that was queued since; waits for it.
  float milliseconds(cudaStream_t stream) const {
    float took = 0;
    FF_CUDA(cudaEventRecord(end_, stream));
    FF_CUDA(cudaEventSynchronize(end_));
    FF_CUDA(cudaEventElapsedTime(&took, begin_, end_));
    return took;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

struct LtProducts::Library {
  cublasLtHandle_t handle = nullptr;
  Library() { FF_LT(cublasLtCreate(&handle)); }
  ~Library() { cublasLtDestroy(handle); }
};

struct LtProducts::Plan {
  cublasLtMatmulDesc_t product = nullptr;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  bool found = false;

  explicit Plan(const Gemm& op) : a(op.a), b(op.b), c(op.c) {
    const bool f64 = op.a.dtype() == DType::f64;
    FF_LT(cublasLtMatmulDescCreate(&product, f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                   f64 ? CUDA_R_64F : CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, op.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, op.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!op.bias) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(op.bias.dtype()));
    set_bias(op.bias);
  }
  ~Plan() { cublasLtMatmulDescDestroy(product); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, V value) {
    FF_LT(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)));
  }
  void set_bias(const Tensor& bias) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.raw()));
  }
  using Algorithm = cublasLtMatmulAlgo_t;
  // At most `most` algorithms that the library proposes, what it expects to be fastest first.
  std::vector<Algorithm> proposals(const Gemm& op, cublasLtHandle_t handle, int most) const {
    Preference preference;
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(kWorkspace));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(op.b));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(op.a));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(op.c));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(op.c));
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
    int count = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(handle, product, b.it, a.it, c.it, c.it, preference.it,
                                                       most, results.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED) FF_LT(status);
    std::vector<Algorithm> all;
    for (int i = 0; i < count; ++i) all.push_back(results[static_cast<std::size_t>(i)].algo);
    return all;
  }

  // Queues the product into c_data, which holds what beta keeps.
  void run(const Gemm& op, void* c_data, const Algorithm& how, const Place& place) const {
    const double one = 1, beta = op.beta;
    const float one_f32 = 1, beta_f32 = static_cast<float>(op.beta);
    const bool f64 = op.a.dtype() == DType::f64;
    const void* const by = f64 ? static_cast<const void*>(&one) : &one_f32;
    const void* const keep = f64 ? static_cast<const void*>(&beta) : &beta_f32;
    FF_LT(cublasLtMatmul(place.handle, product, by, op.b.raw(), b.it, op.a.raw(), a.it, keep, c_data, c.it,
                         c_data, c.it, &how, place.workspace, static_cast<std::size_t>(kWorkspace),
                         place.stream));
  }

  void choose(const Gemm& op, ProductChoice choice, const Place& place) {
    constexpr int kMost = 8;
    const auto all = proposals(op, place.handle, choice == ProductChoice::first ? 1 : kMost);
    found = !all.empty();
    if (found) algorithm = all.size() == 1 ? all.front() : fastest(op, all, place);
  }

 private:
  // The one whose second run of two takes least, into memory of its own.
  Algorithm fastest(const Gemm& op, const std::vector<Algorithm>& all, const Place& place) const {
    void* c_data = nullptr;
    const auto bytes = static_cast<std::size_t>(op.c.count() * size_of(op.c.dtype()));
    FF_CUDA(cudaMallocAsync(&c_data, bytes, place.stream));
    FF_CUDA(cudaMemsetAsync(c_data, 0, bytes, place.stream));
    const Stopwatch watch;
    std::pair<float, std::size_t> best{std::numeric_limits<float>::infinity(), 0};
    for (std::size_t i = 0; i < all.size(); ++i) {
      run(op, c_data, all[i], place);
      watch.start(place.stream);
      run(op, c_data, all[i], place);
      best = std::min(best, {watch.milliseconds(place.stream), i});
    }
    FF_CUDA(cudaFreeAsync(c_data, place.stream));
    return all[best.second];
  }
};

LtProducts::LtProducts(Scratch& workspace, ProductChoice choice)
    : library_(std::make_unique<Library>()), workspace_(workspace), choice_(choice) {}
LtProducts::~LtProducts() = default;

LtProducts::Plan& LtProducts::plan_for(const Gemm& op, void* workspace, cudaStream_t stream) {
  const Key key{op.m(),
                op.n(),
                op.k(),
                op.transpose_a,
                op.transpose_b,
                static_cast<std::int64_t>(op.a.dtype()),
                static_cast<std::int64_t>(op.c.dtype()),
                static_cast<bool>(op.bias),
                alignment_of(op.a),
                alignment_of(op.b),
                alignment_of(op.c)};
  auto& plan = plans_[key];
  if (!plan) {
    auto made = std::make_unique<Plan>(op);
    made->choose(op, choice_, {library_->handle, workspace, stream});
    plan = std::move(made);
  }
  return *plan;
}

bool LtProducts::multiply(const Gemm& op, cudaStream_t stream) {
  if (op.k() == 0 || !bias_fits(op)) return false;
  void* const workspace = workspace_.get<std::byte>(kWorkspace, stream);
  Plan& plan = plan_for(op, workspace, stream);
  if (!plan.found) return false;
  if (op.bias) plan.set_bias(op.bias);
  plan.run(op, op.c.raw(), plan.algorithm, {library_->handle, workspace, stream});
  return true;
}

void execute(const Gemm& op, const CudaContext& ctx) {
  if (op.c.count() == 0) return;
  if (!ctx.products.multiply(op, ctx.stream)) multiply_in_tiles(op, ctx.stream);
}

}  // namespace fivefold::cuda
