// Operand rules and costs of attention and what surrounds it.
#include "kernels/check.h"
#include "kernels/ops/attention.h"

namespace fivefold {
namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

void check_rotary(OperandCheck& check, std::int64_t rows, std::int64_t dim, DType dtype,
                  const Tensor& position, const Tensor& cos, const Tensor& sin) {
  check.is("position", position, {rows}, DType::i32);
  check.is("cos", cos, accum_dtype(dtype));
  check.require(cos.shape().rank() == 2 && 2 * cos.dim(1) <= dim, "cos is ", cos.shape(),
                ", not [positions, half of at most ", dim, "]");
  check.is("sin", sin, cos.shape(), accum_dtype(dtype));
}

void check_no_rotary(OperandCheck& check, const Tensor& cos, const Tensor& sin) {
  check.is_absent("cos", cos, "without position");
  check.is_absent("sin", sin, "without position");
}

// The operands that both split ops have.
template <class Op>
void check_split(OperandCheck& check, const Op& op, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& packed) {
  check.is_floating("q", q, 3);
  const auto rows = q.dim(0), dim = q.dim(2);
  const auto dtype = q.dtype();
  check.is_floating("k", k, 3);
  check.is("k", k, {rows, k.dim(1), dim}, dtype);
  check.is("v", v, k.shape(), dtype);
  if (packed) check.is("packed", packed, {rows, (q.dim(1) + 2 * k.dim(1)) * dim}, dtype);
  if (op.q_weight) {
    check.is_one_of("q_weight", op.q_weight, {dim}, {dtype, accum_dtype(dtype)});
    check.is("k_weight", op.k_weight, {dim}, op.q_weight.dtype());
    check.is("q_rstd", op.q_rstd, {rows, q.dim(1)}, accum_dtype(dtype));
    check.is("k_rstd", op.k_rstd, {rows, k.dim(1)}, accum_dtype(dtype));
  } else {
    check.is_absent("k_weight", op.k_weight, "without q_weight");
    check.is_absent("q_rstd", op.q_rstd, "without q_weight");
    check.is_absent("k_rstd", op.k_rstd, "without q_weight");
  }
  if (op.position)
    check_rotary(check, rows, dim, dtype, op.position, op.cos, op.sin);
  else
    check_no_rotary(check, op.cos, op.sin);
}

// An element of q and k: 1 operation for the move, 3 for the turn, `norm_cost` for the norm.
template <class Op>
double split_flops(const Op& op, const Tensor& q, const Tensor& k, double norm_cost) {
  const double elements = number(q.count() + k.count());
  const double turn =
      op.position ? 3.0 * 2.0 * number(op.cos.dim(1)) / number(std::max<std::int64_t>(q.dim(2), 1)) : 0.0;
  return elements * (1.0 + (op.q_weight ? norm_cost : 0.0) + turn);
}

// The operands that both attention ops have.
template <class Op>
void check_attention(OperandCheck& check, const Op& op) {
  check.is_floating("q", op.q, 3);
  check.is_floating("k", op.k, 3);
  check.is_floating("v", op.v, 3);
  const auto queries = op.q.dim(0), heads = op.q.dim(1), dim = op.q.dim(2), keys = op.k.dim(0),
             kv_heads = op.k.dim(1);
  const auto dtype = op.q.dtype();
  check.is("k", op.k, {keys, kv_heads, dim}, dtype);
  check.is("v", op.v, {keys, kv_heads, op.v.dim(2)}, dtype);
  check.require(kv_heads > 0 && heads % kv_heads == 0, "q has ", heads, " heads, no multiple of the ",
                kv_heads, " of k");
  check.is("q_index", op.q_index, {queries}, DType::i32);
  check.is("first_visible", op.first_visible, {queries}, DType::i32);
  check.is("k_index", op.k_index, {keys}, DType::i32);
  check.is_one_of("out", op.out, {queries, heads, op.v.dim(2)}, {dtype, accum_dtype(dtype)});
  check.is("lse", op.lse, {queries, heads}, accum_dtype(dtype));
  check.require(op.visible_pairs >= 0, "visible_pairs is ", op.visible_pairs);
}

template <class Op>
double attention_flops(const Op& op) {
  return 2.0 * op.visible_pairs * number(op.q.dim(1)) * number(op.q.dim(2) + op.v.dim(2));
}

}  // namespace

void SplitQkvForward::check() const {
  OperandCheck check(kName);
  check.is_floating("packed", packed, 2);
  check_split(check, *this, q, k, v, packed);
}
double SplitQkvForward::flops() const { return split_flops(*this, q, k, 4.0); }
double SplitQkvForward::bytes() const {
  return bytes_of({&packed, &q, &k, &v, &q_weight, &k_weight, &q_rstd, &k_rstd, &position});
}

void SplitQkvBackward::check() const {
  OperandCheck check(kName);
  check_split(check, *this, dq, dk, dv, packed);
  const auto dtype = dq.dtype();
  check.is("d_packed", d_packed, {dq.dim(0), (dq.dim(1) + 2 * dk.dim(1)) * dq.dim(2)}, dtype);
  if (q_weight) {
    check.is("packed", packed, d_packed.shape(), dtype);
    check.is("d_q_weight", d_q_weight, {dq.dim(2)}, accum_dtype(dtype));
    check.is("d_k_weight", d_k_weight, {dq.dim(2)}, accum_dtype(dtype));
  } else {
    check.is_absent("d_q_weight", d_q_weight, "without q_weight");
    check.is_absent("d_k_weight", d_k_weight, "without q_weight");
  }
}
double SplitQkvBackward::flops() const { return split_flops(*this, dq, dk, 9.0); }
double SplitQkvBackward::bytes() const {
  const double always =
      bytes_of({&dq, &dk, &dv, &q_weight, &k_weight, &q_rstd, &k_rstd, &position, &d_packed});
  return always + (q_weight ? bytes_of({&packed}) : 0.0);
}

void Rotary::check() const {
  OperandCheck check(kName);
  check.is_floating("x", x, 3);
  check.is("y", y, x.shape(), x.dtype());
  check_rotary(check, x.dim(0), x.dim(2), x.dtype(), position, cos, sin);
}
double Rotary::flops() const { return 6.0 * number(x.dim(0) * x.dim(1) * cos.dim(1)); }
double Rotary::bytes() const { return bytes_of({&x, &y, &position}); }

void AttentionForward::check() const {
  OperandCheck check(kName);
  check_attention(check, *this);
}
double AttentionForward::flops() const { return attention_flops(*this); }
double AttentionForward::bytes() const {
  return bytes_of({&q, &k, &v, &q_index, &first_visible, &k_index, &out, &lse});
}

void AttentionBackward::check() const {
  OperandCheck check(kName);
  check_attention(check, *this);
  const auto dtype = q.dtype();
  check.is("d_out", d_out, out.shape(), dtype);
  check.is_one_of("dq", dq, q.shape(), {dtype, accum_dtype(dtype)});
  check.is_one_of("dk", dk, k.shape(), {dtype, accum_dtype(dtype)});
  check.is_one_of("dv", dv, v.shape(), {dtype, accum_dtype(dtype)});
}
double AttentionBackward::flops() const { return 2.5 * attention_flops(*this); }
double AttentionBackward::bytes() const {
  return bytes_of({&q, &k, &v, &q_index, &first_visible, &k_index, &out, &lse, &d_out, &dq, &dk, &dv});
}

void AttentionMerge::check() const {
  OperandCheck check(kName);
  check.is_floating("other_out", other_out, 3);
  check.is_floating("out", out, 3);
  check.require(out.dtype() != DType::bf16, "out is bf16, no accumulate dtype");
  check.is("other_out", other_out, out.shape(), other_out.dtype());
  check.require(accum_dtype(other_out.dtype()) == out.dtype(), "out is ", out.dtype(),
                ", not the accumulate dtype of ", other_out.dtype());
  check.is("lse", lse, {out.dim(0), out.dim(1)}, out.dtype());
  check.is("other_lse", other_lse, lse.shape(), out.dtype());
}
double AttentionMerge::flops() const { return 3.0 * number(out.count()); }
double AttentionMerge::bytes() const { return bytes_of({&out, &lse, &out, &lse, &other_out, &other_lse}); }

}  // namespace fivefold
