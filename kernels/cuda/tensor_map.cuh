// Descriptions of tensors for Hopper's bulk copies.
#pragma once
#include <cuda.h>

#include "core/tensor.h"

namespace fivefold::cuda {

// A bf16 tensor [rows, heads, width] (16-byte aligned, width a multiple of 8) for copies of `box_rows` rows
// by 64 columns of one head, with the 128-byte swizzle; zeros outside the tensor. Coordinates: column, head,
// row.
CUtensorMap head_rows_map(const Tensor& x, int box_rows);

// True on a device that has wgmma (compute capability 9.0).
bool has_wgmma();
// Of the current device: how many it has, and bytes of shared memory that a block may have.
int multiprocessors();
int most_shared();

}  // namespace fivefold::cuda
