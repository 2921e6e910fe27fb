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

Problem problem_of(Family family, DType dtype) {
  Problem p;
  p.model = family == Family::llama  ? test::small_llama()
            : family == Family::gpt2 ? test::small_gpt2()
                                     : test::small_qwen3();
  p.model.layers = 4;
  p.dtype = dtype;
  p.device = kDevice;
  return p;
}

// Each measure of `got` against that of `allowed`.
void expect_within_twice(const Distance& got, const Distance& allowed, const std::string& what) {
  EXPECT_LE(got.loss, 2 * allowed.loss) << what;
  EXPECT_LE(got.grad_norm, 2 * allowed.grad_norm) << what;
  EXPECT_LE(got.gradients, 2 * allowed.gradients) << what << ", " << got.worst;
  EXPECT_LE(got.weights, 2 * allowed.weights) << what;
}

class GpuBf16Layouts : public testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(LlamaGpt2Qwen3, GpuBf16Layouts,
                         testing::Values(Family::llama, Family::gpt2, Family::qwen3));

TEST_P(GpuBf16Layouts, AreAsGoodAsOneRank) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto problem = problem_of(GetParam(), DType::bf16);
  const auto one = test::train(problem, {});
  const auto exact = test::train(problem_of(GetParam(), DType::f32), {});
  const auto allowed = test::distance(one, exact, problem);
  EXPECT_GT(allowed.gradients, 1e-4) << "bf16 is no f32";
  for (const auto& layout : test::layouts_of_eight())
    expect_within_twice(test::distance(test::train(problem, layout), one, problem), allowed,
                        to_string(layout));
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
  const auto problem = problem_of(Family::llama, DType::bf16);
  for (const auto& layout : {Layout{}, test::layouts_of_eight()[2], test::layouts_of_eight()[9]})
    EXPECT_EQ(test::hash_of(test::train(problem, layout)), test::hash_of(test::train(problem, layout)))
        << to_string(layout);
}

}  // namespace
}  // namespace fivefold
