// Operands of the split of packed rows and of its gradient, for the kernels that take them by elements
// (split_qkv.cu) and by packs of 16 bytes (split_qkv_packs.cu).
#pragma once
#include "kernels/cuda/heads.cuh"

namespace fivefold::cuda {

// Heads of q, k or v inside a packed row. W: the type of the norm weights.
template <class T, class W>
struct Section {
  using A = Accum<T>;
  T* data;          // [T, heads, hd]
  const W* weight;  // [hd], null: no norm
  A* rstd;          // [T, heads]
  std::int64_t heads;
};

template <class T, class W>
struct Split {
  using A = Accum<T>;
  Section<T, W> q, k, v;
  const T* packed;
  T* d_packed;  // backward only
  RotaryTable<A> table;
  std::int64_t rows, dim;
  A eps;

  __device__ std::int64_t heads() const { return q.heads + k.heads + v.heads; }
};

// Op is the forward or the backward op; q, k, v are its tensors of that shape.
template <class T, class W, class Op>
Split<T, W> split_of(const Op& op, const Tensor& q, const Tensor& k, const Tensor& v) {
  using A = Accum<T>;
  return {{elements<T>(q), elements<W>(op.q_weight), elements<A>(op.q_rstd), q.dim(1)},
          {elements<T>(k), elements<W>(op.k_weight), elements<A>(op.k_rstd), k.dim(1)},
          {elements<T>(v), nullptr, nullptr, v.dim(1)},
          elements<T>(op.packed),
          nullptr,
          RotaryTable<A>(op.position, op.cos, op.sin, op.style),
          q.dim(0),
          q.dim(2),
          A(0)};
}

// True where they queued the work: heads in packs, at addresses that 16 bytes divide.
template <class T, class W>
bool split_in_packs(const Split<T, W>& split, const CudaContext& ctx);
// Gradients of the norm weights are added to d_q_weight and d_k_weight.
template <class T, class W>
bool join_in_packs(const Split<T, W>& split, Accum<T>* d_q_weight, Accum<T>* d_k_weight,
                   const CudaContext& ctx);
// y = x turned (direction 1) or turned back (-1).
template <class T>
bool turn_in_packs(const T* x, T* y, std::int64_t rows, std::int64_t heads, std::int64_t dim,
                   const RotaryTable<Accum<T>>& table, Accum<T> direction, const CudaContext& ctx);

}  // namespace fivefold::cuda
