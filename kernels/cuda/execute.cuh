// The CUDA ops: one function per op, each in the file of its name. Operands have been checked. An op without
// a function here does not compile in backend_cuda.cpp.
#pragma once
#include "kernels/backend.h"
#include "kernels/cuda/context.cuh"

namespace fivefold::cuda {

void execute(const Gemm& op, const CudaContext& ctx);
void execute(const GroupedGemm& op, const CudaContext& ctx);
void execute(const BiasGradient& op, const CudaContext& ctx);
void execute(const NormForward& op, const CudaContext& ctx);
void execute(const NormBackward& op, const CudaContext& ctx);
void execute(const SplitQkvForward& op, const CudaContext& ctx);
void execute(const SplitQkvBackward& op, const CudaContext& ctx);
void execute(const Rotary& op, const CudaContext& ctx);
void execute(const AttentionForward& op, const CudaContext& ctx);
void execute(const AttentionBackward& op, const CudaContext& ctx);
void execute(const AttentionMerge& op, const CudaContext& ctx);
void execute(const HeadsToParts& op, const CudaContext& ctx);
void execute(const PartsToHeads& op, const CudaContext& ctx);
void execute(const SwigluForward& op, const CudaContext& ctx);
void execute(const SwigluBackward& op, const CudaContext& ctx);
void execute(const GeluForward& op, const CudaContext& ctx);
void execute(const GeluBackward& op, const CudaContext& ctx);
void execute(const Add& op, const CudaContext& ctx);
void execute(const Convert& op, const CudaContext& ctx);
void execute(const Fill& op, const CudaContext& ctx);
void execute(const RandomNormal& op, const CudaContext& ctx);
void execute(const EmbeddingForward& op, const CudaContext& ctx);
void execute(const EmbeddingBackward& op, const CudaContext& ctx);
void execute(const VocabStats& op, const CudaContext& ctx);
void execute(const CrossEntropy& op, const CudaContext& ctx);
void execute(const SquaredSum& op, const CudaContext& ctx);
void execute(const StepControl& op, const CudaContext& ctx);
void execute(const AdamW& op, const CudaContext& ctx);
void execute(const ReadMaster& op, const CudaContext& ctx);
void execute(const WriteMaster& op, const CudaContext& ctx);

}  // namespace fivefold::cuda
