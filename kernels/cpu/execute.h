// The CPU ops: one function per op, each in the file of its name. Operands have been checked. An op without a
// function here does not compile in cpu_backend.cpp.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace fivefold::cpu {

void execute(const Gemm& op, const CpuContext& ctx);
void execute(const GroupedGemm& op, const CpuContext& ctx);
void execute(const BiasGradient& op, const CpuContext& ctx);
void execute(const NormForward& op, const CpuContext& ctx);
void execute(const NormBackward& op, const CpuContext& ctx);
void execute(const SplitQkvForward& op, const CpuContext& ctx);
void execute(const SplitQkvBackward& op, const CpuContext& ctx);
void execute(const Rotary& op, const CpuContext& ctx);
void execute(const AttentionForward& op, const CpuContext& ctx);
void execute(const AttentionBackward& op, const CpuContext& ctx);
void execute(const AttentionMerge& op, const CpuContext& ctx);
void execute(const HeadsToParts& op, const CpuContext& ctx);
void execute(const PartsToHeads& op, const CpuContext& ctx);
void execute(const SwigluForward& op, const CpuContext& ctx);
void execute(const SwigluBackward& op, const CpuContext& ctx);
void execute(const GeluForward& op, const CpuContext& ctx);
void execute(const GeluBackward& op, const CpuContext& ctx);
void execute(const Add& op, const CpuContext& ctx);
void execute(const Convert& op, const CpuContext& ctx);
void execute(const Fill& op, const CpuContext& ctx);
void execute(const RandomNormal& op, const CpuContext& ctx);
void execute(const EmbeddingForward& op, const CpuContext& ctx);
void execute(const EmbeddingBackward& op, const CpuContext& ctx);
void execute(const VocabStats& op, const CpuContext& ctx);
void execute(const CrossEntropy& op, const CpuContext& ctx);
void execute(const SquaredSum& op, const CpuContext& ctx);
void execute(const StepControl& op, const CpuContext& ctx);
void execute(const AdamW& op, const CpuContext& ctx);
void execute(const ReadMaster& op, const CpuContext& ctx);
void execute(const WriteMaster& op, const CpuContext& ctx);

}  // namespace fivefold::cpu
