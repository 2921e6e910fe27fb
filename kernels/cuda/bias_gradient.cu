// Column sums.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/execute.cuh"

namespace fivefold::cuda {

namespace {

template <class T>
struct Entry {
  const T* dy;
  std::int64_t width;
  __device__ void operator()(std::int64_t row, std::int64_t column, Accum<T>* sum) const {
    sum[0] += widen<Accum<T>>(dy[row * width + column]);
  }
};

}  // namespace

void execute(const BiasGradient& op, const CudaContext& ctx) {
  with_device_float(op.dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accum<T>;
    add_column_sums<1, A>(op.dy.dim(0), op.dy.dim(1), Entry<T>{elements<T>(op.dy), op.dy.dim(1)},
                          {elements<A>(op.d_bias)}, ctx);
  });
}

}  // namespace fivefold::cuda
