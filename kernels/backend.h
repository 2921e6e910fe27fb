// Ops are types; a backend is generated from their list: one virtual run() per op. A backend that lacks one
// does not compile.
#pragma once
#include <memory>

#include "core/stream.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dense.h"
#include "kernels/ops/heads.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/optim.h"
#include "kernels/ops/pointwise.h"
#include "kernels/ops/random.h"
#include "kernels/ops/tokens.h"

namespace fivefold {

template <class... Ops>
struct OpList {};

using AllOps = OpList<Gemm, GroupedGemm, BiasGradient, NormForward, NormBackward, SplitQkvForward,
                      SplitQkvBackward, Rotary, AttentionForward, AttentionBackward, AttentionMerge,
                      HeadsToParts, PartsToHeads, SwigluForward, SwigluBackward, GeluForward, GeluBackward,
                      Add, Convert, Fill, RandomNormal, EmbeddingForward, EmbeddingBackward, VocabStats,
                      CrossEntropy, SquaredSum, StepControl, AdamW, ReadMaster, WriteMaster>;

template <class Op>
class RunsOp {
 public:
  // Checks the operands, then queues the op on `stream`. Outputs are given; ops never allocate what a caller
  // sees.
  virtual void run(const Op& op, Stream& stream) = 0;

 protected:
  ~RunsOp() = default;
};

template <class List>
class RunsAll;
template <class... Ops>
class RunsAll<OpList<Ops...>> : public RunsOp<Ops>... {
 public:
  virtual ~RunsAll() = default;
  using RunsOp<Ops>::run...;
  virtual DeviceKind device() const = 0;
};
using Backend = RunsAll<AllOps>;

// Implements every run() of `List` as derived.execute(op, stream).
template <class Derived, class Base, class List>
class Implements;
template <class Derived, class Base>
class Implements<Derived, Base, OpList<>> : public Base {};
template <class Derived, class Base, class Op, class... Rest>
class Implements<Derived, Base, OpList<Op, Rest...>> : public Implements<Derived, Base, OpList<Rest...>> {
 public:
  using Base::run;
  void run(const Op& op, Stream& stream) final {
    op.check();
    static_cast<Derived*>(this)->execute(op, stream);
  }
};

struct CpuBackendOptions {
  int threads = 1;  // of one rank
  std::int64_t thread_work =
      32768;  // operations that are worth a thread of their own; tests set 1 to cut small operands
};
std::unique_ptr<Backend> make_cpu_backend(CpuBackendOptions options = {});

}  // namespace fivefold
