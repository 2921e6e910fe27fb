// Layouts of eight thread ranks that share one CUDA device: stored trajectories in f32 within their
// tolerances, and bf16 no further from one rank's bf16 than twice what separates that from f32.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "launcher/parity.h"
#include "parallel/comm/thread_world.h"
#include "tests/support/layout_table.h"

namespace fivefold {
namespace {

using test::Distance;
using test::Layout;
using test::Problem;

constexpr Device kDevice{DeviceKind::cuda, 0};

std::vector<HostSlot> slots_of(int ranks) {
  std::vector<HostSlot> slots;
  for (int r = 0; r < ranks; ++r) slots.push_back({"host", r});
  return slots;
}

std::vector<Comparison> compared(const Reference& reference, const Layout& layout) {
  std::vector<Comparison> result;
  run_ranks(layout.mesh.world(), [&](Transport& transport) {
    auto stage = layout.stage;
    stage.cp_strategy = layout.strategy;
    Engine engine({.model = reference.model,
                   .mesh = layout.mesh,
                   .dtype = DType::f32,
                   .device = kDevice,
                   .stage = stage,
                   .pipeline = layout.pipeline,
                   .optimizer = reference.optimizer,
                   .memory = {.poison = true}},
                  transport, slots_of(layout.mesh.world()));
    auto mine = compare_with_reference(engine, reference, layout.micro_batch);
    if (transport.world().rank() == 0) result = std::move(mine);
  });
  return result;
}

class GpuReferenceLayouts : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, GpuReferenceLayouts, testing::Values("llama", "qwen3", "gpt2"));

TEST_P(GpuReferenceLayouts, AgreeInF32) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  PosixFileSystem fs;
  const auto reference = read_reference(fs, std::filesystem::path(FIVEFOLD_FIXTURES) / "hf" / GetParam());
  auto layouts = test::layouts_of_eight();
  layouts.push_back({});  // one rank
  for (const auto& layout : layouts)
    for (const auto& c : compared(reference, layout))
      EXPECT_TRUE(c.ok()) << to_string(layout) << "\n" << to_text({c});
}

enum class Family { llama, gpt2, qwen3 };

Problem problem_of(Family family, DType dtype, std::uint64_t seed = 11) {
  Problem p;
  p.model = family == Family::llama  ? test::small_llama()
            : family == Family::gpt2 ? test::small_gpt2()
                                     : test::small_qwen3();
  p.model.layers = 4;
  p.model.init_std = 0.1;  // of logits that bf16 tells apart
  p.lr = 1e-3;
  p.dtype = dtype;
  p.device = kDevice;
  p.init.seed = seed;
  return p;
}

// How far bf16 on one rank lands from f32 on one rank: the furthest of several initial weights, since a loss
// or a norm is one number only and may happen to be near.
Distance own_distance(Family family) {
  Distance own;
  for (const std::uint64_t seed : {11, 12, 13, 14}) {
    const auto problem = problem_of(family, DType::bf16, seed);
    const auto d = test::distance(test::train(problem, {}),
                                  test::train(problem_of(family, DType::f32, seed), {}), problem);
    own.loss = std::max(own.loss, d.loss);
    own.grad_norm = std::max(own.grad_norm, d.grad_norm);
    own.gradients = std::max(own.gradients, d.gradients);
    own.weights = std::max(own.weights, d.weights);
  }
  return own;
}

// Each measure of `got` against that of `own`.
void expect_within_twice(const Distance& got, const Distance& own, const std::string& what) {
  EXPECT_LE(got.loss, 2 * own.loss) << what;
  EXPECT_LE(got.grad_norm, 2 * own.grad_norm) << what;
  EXPECT_LE(got.gradients, 2 * own.gradients) << what << ", " << got.worst;
  EXPECT_LE(got.weights, 2 * own.weights) << what;
}

class GpuBf16Layouts : public testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(LlamaGpt2Qwen3, GpuBf16Layouts,
                         testing::Values(Family::llama, Family::gpt2, Family::qwen3));

TEST_P(GpuBf16Layouts, AreAsGoodAsOneRank) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto problem = problem_of(GetParam(), DType::bf16);
  const auto one = test::train(problem, {});
  const auto own = own_distance(GetParam());
  EXPECT_GT(own.gradients, 1e-4) << "bf16 is no f32";
  for (const auto& layout : test::layouts_of_eight())
    expect_within_twice(test::distance(test::train(problem, layout), one, problem), own, to_string(layout));
}

// The device's f32 is the CPU's to the tolerances of the stored trajectories, also where documents are
// masked.
TEST(GpuLayouts, OneRankIsTheCpus) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  for (const auto family : {Family::llama, Family::gpt2, Family::qwen3}) {
    auto problem = problem_of(family, DType::f32);
    const auto device = test::train(problem, {});
    problem.device = {};
    const auto d = test::distance(device, test::train(problem, {}), problem);
    const auto t = reference_tolerances(DType::f32);
    EXPECT_LE(d.loss, t.loss) << to_string(d);
    EXPECT_LE(d.grad_norm, t.grad_norm) << to_string(d);
    EXPECT_LE(d.gradients, t.gradients) << to_string(d);
    EXPECT_LE(d.weights, t.weights) << to_string(d);
  }
}

// train.deterministic: the same bits every time, on one rank and on eight.
TEST(GpuLayouts, RepeatTheirBits) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  auto layouts = test::layouts_of_eight();
  layouts.push_back({});  // one rank
  for (const auto dtype : {DType::f32, DType::bf16}) {
    const auto problem = problem_of(Family::llama, dtype);
    for (const auto& layout : layouts)
      EXPECT_EQ(test::hash_of(test::train(problem, layout)), test::hash_of(test::train(problem, layout)))
          << to_string(layout) << ", " << dtype;
  }
}

}  // namespace
}  // namespace fivefold
