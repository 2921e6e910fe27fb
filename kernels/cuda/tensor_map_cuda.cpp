// The encoder comes from the driver at run time, so that nothing links against it.
#include "core/cuda_check.h"
#include "kernels/cuda/tensor_map.cuh"

namespace fivefold::cuda {

namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  FF_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                           &found));
  FF_CHECK(function && found == cudaDriverEntryPointSuccess, "the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<Encode>(function);
}

int attribute(cudaDeviceAttr name) {
  int device = 0, value = 0;
  FF_CUDA(cudaGetDevice(&device));
  FF_CUDA(cudaDeviceGetAttribute(&value, name, device));
  return value;
}

}  // namespace

CUtensorMap head_rows_map(const Tensor& x, int box_rows) {
  static const Encode encode = find_encode();
  const auto number = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t dims[]{number(x.dim(2)), number(x.dim(1)), number(x.dim(0))};
  const cuuint64_t strides[]{number(2 * x.dim(2)), number(2 * x.dim(1) * x.dim(2))};  // bytes
  const cuuint32_t box[]{64, 1, static_cast<cuuint32_t>(box_rows)}, steps[]{1, 1, 1};
  CUtensorMap map{};
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, x.raw(), dims, strides, box,
                                 steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  FF_CHECK(result == CUDA_SUCCESS, "no tensor map of ", x.shape(), ": error ", static_cast<int>(result));
  return map;
}

bool has_wgmma() {
  return attribute(cudaDevAttrComputeCapabilityMajor) == 9 &&
         attribute(cudaDevAttrComputeCapabilityMinor) == 0;
}

int multiprocessors() { return attribute(cudaDevAttrMultiProcessorCount); }
int most_shared() { return attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin); }

}  // namespace fivefold::cuda
