// Operand rules and costs of the embedding and the cross entropy.
#include "kernels/check.h"
#include "kernels/ops/tokens.h"

namespace fivefold {
namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

// The part of the vocabulary that both cross entropy ops know.
template <class Op>
void check_vocabulary(OperandCheck& check, const Op& op) {
  check.is_floating("logits", op.logits, 2);
  check.is("target", op.target, {op.logits.dim(0)}, DType::i32);
  check.require(op.first_column >= 0, "first_column is ", op.first_column);
  check.require(op.columns >= 0 && op.columns <= op.logits.dim(1), "columns is ", op.columns,
                ", not within [0, ", op.logits.dim(1), "]");
}

}  // namespace

void EmbeddingForward::check() const {
  OperandCheck check(kName);
  check.is_floating("table", table, 2);
  check.is("ids", ids, DType::i32);
  check.is("y", y, {ids.count(), table.dim(1)}, table.dtype());
  check.is("ids", ids, {y.dim(0)}, DType::i32);
  check.require(first_row >= 0, "first_row is ", first_row);
}
double EmbeddingForward::flops() const { return number(y.count()); }
double EmbeddingForward::bytes() const {
  return bytes_of({&ids, &y, &y}) + (accumulate ? bytes_of({&y}) : 0.0);
}

void EmbeddingBackward::check() const {
  OperandCheck check(kName);
  check.is_floating("dy", dy, 2);
  check.is("ids", ids, {dy.dim(0)}, DType::i32);
  check.is("d_table", d_table, accum_dtype(dy.dtype()));
  check.require(d_table.shape().rank() == 2 && d_table.dim(1) == dy.dim(1), "d_table is ", d_table.shape(),
                ", not [rows, ", dy.dim(1), "]");
  check.require(first_row >= 0, "first_row is ", first_row);
}
double EmbeddingBackward::flops() const { return number(dy.count()); }
double EmbeddingBackward::bytes() const {
  return bytes_of({&ids, &dy}) + 2.0 * number(dy.count()) * number(size_of(d_table.dtype()));
}

void VocabStats::check() const {
  OperandCheck check(kName);
  check_vocabulary(check, *this);
  check.is("stats", stats, {logits.dim(0), 3}, accum_dtype(logits.dtype()));
}
double VocabStats::flops() const { return number(logits.dim(0)) * (1.0 + 3.0 * number(columns)); }
double VocabStats::bytes() const { return bytes_of({&logits, &target, &stats}); }

void CrossEntropy::check() const {
  OperandCheck check(kName);
  check_vocabulary(check, *this);
  const auto accum = accum_dtype(logits.dtype());
  check.is("stats", stats, accum);
  check.require(stats.shape() == Shape{stats.dim(0), logits.dim(0), 3}, "stats is ", stats.shape(),
                ", not [parts, ", logits.dim(0), ", 3]");
  check.is("loss", loss, {1}, DType::f64);
  if (row_loss) check.is("row_loss", row_loss, {logits.dim(0)}, accum);
}
double CrossEntropy::flops() const {
  return number(stats.count()) + (gradient ? 3.0 * number(logits.dim(0) * columns) : 0.0);
}
double CrossEntropy::bytes() const {
  return bytes_of({&target, &stats, &row_loss}) + (gradient ? bytes_of({&logits, &logits}) : 0.0);
}

}  // namespace fivefold
