// Stored weights as one tensor, and back.
#include "kernels/cpu/execute.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/stored_master.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {

void execute(const ReadMaster& op, const CpuContext& ctx) {
  with_master(op.weight, [&]<class W>(const W& weight) {
    auto* value = op.value.data<typename W::Number>();
    parallel_for(ctx, op.value.count(), 1, [=](std::int64_t begin, std::int64_t end) {
      for_each_element(begin, end, [=](std::int64_t i) { value[i] = weight.number(i); });
    });
  });
}

void execute(const WriteMaster& op, const CpuContext& ctx) {
  with_master(op.weight, [&]<class W>(const W& weight) {
    const auto* value = op.value.data<typename W::Number>();
    parallel_for(ctx, op.value.count(), 1, [=](std::int64_t begin, std::int64_t end) {
      for_each_element(begin, end, [=](std::int64_t i) { weight.put(i, value[i]); });
    });
  });
}

}  // namespace fivefold::cpu
