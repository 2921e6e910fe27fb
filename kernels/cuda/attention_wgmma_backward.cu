// Gradients of attention in bf16 on Hopper. One kernel owns tiles of keys (dk and dv), another tiles of
// queries (dq): seven products where one kernel would need five, but every sum has one order and no partial
// sums of dq lie in memory.
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_wgmma_backward.cuh"

namespace fivefold::cuda {

namespace {

WgmmaBackward operands(const AttentionBackward& op) {
  WgmmaBackward f{};
  f.dq = op.dq.raw();
  f.dk = op.dk.raw();
  f.dv = op.dv.raw();
  f.mask = mask_indices(op);
  f.heads = static_cast<int>(op.q.dim(1));
  f.kv_heads = static_cast<int>(op.k.dim(1));
  f.scale = static_cast<float>(op.scale);
  f.wide_q = op.dq.dtype() == DType::f32;
  f.wide_k = op.dk.dtype() == DType::f32;
  f.wide_v = op.dv.dtype() == DType::f32;
  return f;
}

// For tiles of so many queries and keys: maps of the operands and the plan, at `room`.
void lay_out(const AttentionBackward& op, int queries, int keys, void* room, cudaStream_t stream,
             WgmmaBackward& f) {
  f.q = head_rows_map(op.q, queries);
  f.k = head_rows_map(op.k, keys);
  f.v = head_rows_map(op.v, keys);
  f.d_out = head_rows_map(op.d_out, queries);
  f.plan = queue_plan(op.q_index, op.first_visible, op.k_index, queries, keys, room, stream);
}

template <class K, class Q>
void queue(const AttentionBackward& op, const CudaContext& ctx) {
  const auto bytes = [&](int queries, int keys) {
    return plan_bytes(op.q.dim(0), op.k.dim(0), queries, keys);
  };
  const std::int64_t sums = row_sums_bytes(op), plan = bytes(K::kStep, K::kOwn);
  auto* const room = ctx.room<std::byte>(sums + plan + bytes(Q::kOwn, Q::kStep));
  WgmmaBackward f = operands(op);
  f.sums = queue_row_sums(op, room, ctx.stream);
  lay_out(op, K::kStep, K::kOwn, room + sums, ctx.stream, f);
  queue_keys<K>(f, ctx.stream);
  lay_out(op, Q::kOwn, Q::kStep, room + sums + plan, ctx.stream, f);
  queue_queries<Q>(f, ctx.stream);
}

}  // namespace

bool wgmma_attention(const AttentionBackward& op, const CudaContext& ctx) {
  if (!tensor_cores_take(op) || !packs_aligned({op.d_out.raw(), op.dq.raw(), op.dk.raw(), op.dv.raw()}) ||
      !has_wgmma())
    return false;
  const std::int64_t dim = op.q.dim(2), value_dim = op.v.dim(2);
  if (dim == 64 && value_dim == 64) return queue<Keys64, Queries64>(op, ctx), true;
  if (dim == 96 && value_dim == 96) return queue<Keys96, Queries96>(op, ctx), true;
  if (dim == 128 && value_dim == 128) return queue<Keys128, Queries128>(op, ctx), true;
  if (dim == 192 && value_dim == 128) return queue<Keys192, Queries192>(op, ctx), true;
  return false;
}

}  // namespace fivefold::cuda
