// What tells two runs of one op apart: the sizes of products and of attention, for tables and timelines.
#pragma once
#include <string>

#include "kernels/backend.h"

namespace fivefold {

template <class Op>
std::string op_sizes(const Op&) {
  return {};
}
inline std::string op_sizes(const Gemm& op) {
  return str(op.m(), " x ", op.n(), " x ", op.k(), ' ', op.transpose_a ? 't' : 'n',
             op.transpose_b ? 't' : 'n');
}
inline std::string op_sizes(const GroupedGemm& op) {
  return str(op.groups(), " groups, ", op.a.dim(0), " rows, ", op.a.dim(1), " and ", op.b.dim(1), " wide",
             op.side == GroupedSide::weight ? ", weight" : "");
}
inline std::string op_sizes(const AttentionForward& op) {
  return str(op.q.dim(0), " rows, ", op.q.dim(1), '/', op.k.dim(1), " heads of ", op.q.dim(2));
}
inline std::string op_sizes(const AttentionBackward& op) {
  return str(op.q.dim(0), " rows, ", op.q.dim(1), '/', op.k.dim(1), " heads of ", op.q.dim(2));
}

}  // namespace fivefold
