// The cases of every op. An op of AllOps without a line here does not compile in tests/kernels/op_test.cpp.
#pragma once
#include "kernels/backend.h"
#include "kernels/cases/case.h"

namespace fivefold::cases {

enum class Scale : std::uint8_t {
  test,   // small, odd and empty shapes in every dtype
  edges,  // shapes on both sides of where kernels change their way: values only; of OpsWithEdges only
  bench,  // shapes of models that a CPU trains, for timing
  large   // shapes of models of 1, 3 and 8 billion parameters in bf16, for timing on a GPU
};

using OpsWithEdges =
    OpList<Gemm, GroupedGemm, BiasGradient, NormForward, NormBackward, SplitQkvForward, SplitQkvBackward,
           Rotary, EmbeddingForward, EmbeddingBackward, VocabStats, CrossEntropy>;

template <class Op>
std::vector<Case<Op>> cases(Scale scale) = delete;

template <>
std::vector<Case<Gemm>> cases<Gemm>(Scale);
template <>
std::vector<Case<GroupedGemm>> cases<GroupedGemm>(Scale);
template <>
std::vector<Case<BiasGradient>> cases<BiasGradient>(Scale);
template <>
std::vector<Case<NormForward>> cases<NormForward>(Scale);
template <>
std::vector<Case<NormBackward>> cases<NormBackward>(Scale);
template <>
std::vector<Case<SplitQkvForward>> cases<SplitQkvForward>(Scale);
template <>
std::vector<Case<SplitQkvBackward>> cases<SplitQkvBackward>(Scale);
template <>
std::vector<Case<Rotary>> cases<Rotary>(Scale);
template <>
std::vector<Case<AttentionForward>> cases<AttentionForward>(Scale);
template <>
std::vector<Case<AttentionBackward>> cases<AttentionBackward>(Scale);
template <>
std::vector<Case<AttentionMerge>> cases<AttentionMerge>(Scale);
template <>
std::vector<Case<HeadsToParts>> cases<HeadsToParts>(Scale);
template <>
std::vector<Case<PartsToHeads>> cases<PartsToHeads>(Scale);
template <>
std::vector<Case<SwigluForward>> cases<SwigluForward>(Scale);
template <>
std::vector<Case<SwigluBackward>> cases<SwigluBackward>(Scale);
template <>
std::vector<Case<GeluForward>> cases<GeluForward>(Scale);
template <>
std::vector<Case<GeluBackward>> cases<GeluBackward>(Scale);
template <>
std::vector<Case<Add>> cases<Add>(Scale);
template <>
std::vector<Case<Convert>> cases<Convert>(Scale);
template <>
std::vector<Case<Fill>> cases<Fill>(Scale);
template <>
std::vector<Case<RandomNormal>> cases<RandomNormal>(Scale);
template <>
std::vector<Case<EmbeddingForward>> cases<EmbeddingForward>(Scale);
template <>
std::vector<Case<EmbeddingBackward>> cases<EmbeddingBackward>(Scale);
template <>
std::vector<Case<VocabStats>> cases<VocabStats>(Scale);
template <>
std::vector<Case<CrossEntropy>> cases<CrossEntropy>(Scale);
template <>
std::vector<Case<SquaredSum>> cases<SquaredSum>(Scale);
template <>
std::vector<Case<StepControl>> cases<StepControl>(Scale);
template <>
std::vector<Case<AdamW>> cases<AdamW>(Scale);
template <>
std::vector<Case<ReadMaster>> cases<ReadMaster>(Scale);
template <>
std::vector<Case<WriteMaster>> cases<WriteMaster>(Scale);

}  // namespace fivefold::cases
