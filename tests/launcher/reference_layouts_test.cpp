// The stored trajectories of another program under layouts in which every axis is larger than 1 somewhere: an
// oracle that shares no code with this one. tp 4 has 2 kv heads for 4 ranks and 250 vocabulary rows that 4
// does not divide.
#include <gtest/gtest.h>

#include "launcher/parity.h"
#include "parallel/comm/thread_world.h"

namespace fivefold {
namespace {

struct Layout {
  MeshShape mesh;
  PipelineOptions pipeline{};
  int zero = 1;
  std::int64_t micro_batch = 1;
  CpStrategy strategy = CpStrategy::ring;
};

PipelineOptions schedule(ScheduleKind kind, int chunks = 1) {
  return {.schedule = kind, .chunks = chunks, .stage_layers = {}};
}

// Batches of 4 sequences: micro-batches of 1 make 4, of 2 make 2.
std::vector<Layout> layouts() {
  using enum ScheduleKind;
  return {{.mesh = {.tp = 4}},
          {.mesh = {.shard = 4}, .zero = 3},
          {.mesh = {.replicate = 2, .shard = 2}, .zero = 2, .micro_batch = 2},
          {.mesh = {.cp = 4}},
          {.mesh = {.cp = 2, .tp = 2}, .strategy = CpStrategy::ulysses},
          {.mesh = {.pp = 4}, .pipeline = schedule(one_f_one_b)},
          {.mesh = {.pp = 4}, .pipeline = schedule(gpipe), .micro_batch = 2},
          {.mesh = {.pp = 2}, .pipeline = schedule(interleaved, 2)},
          {.mesh = {.pp = 2, .tp = 2}, .pipeline = schedule(zb_v, 2), .micro_batch = 2},
          {.mesh = {.pp = 2, .shard = 2, .tp = 2}, .pipeline = schedule(zb_h1), .zero = 3},
          {.mesh = {.pp = 2, .cp = 2, .tp = 2}, .pipeline = schedule(one_f_one_b), .micro_batch = 2},
          {.mesh = {.shard = 2, .cp = 2, .tp = 2}, .zero = 3, .strategy = CpStrategy::gather},
          {.mesh = {.pp = 2, .replicate = 2, .tp = 4}, .pipeline = schedule(one_f_one_b)}};
}

std::vector<Comparison> run(const Reference& reference, const Layout& layout, DType dtype) {
  std::vector<Comparison> result;
  std::vector<HostSlot> slots;
  for (int r = 0; r < layout.mesh.world(); ++r) slots.push_back({"host", r});
  run_ranks(layout.mesh.world(), [&](Transport& transport) {
    StageOptions stage{.zero = {.stage = layout.zero}};
    stage.cp_strategy = layout.strategy;
    Engine engine({.model = reference.model,
                   .mesh = layout.mesh,
                   .dtype = dtype,
                   .stage = stage,
                   .pipeline = layout.pipeline,
                   .optimizer = reference.optimizer},
                  transport, slots);
    auto mine = compare_with_reference(engine, reference, layout.micro_batch);
    if (transport.world().rank() == 0) result = std::move(mine);
  });
  return result;
}

class ReferenceLayouts : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, ReferenceLayouts, testing::Values("llama", "qwen3", "gpt2"));

TEST_P(ReferenceLayouts, AgreeInF32AndF64) {
  PosixFileSystem fs;
  const auto reference = read_reference(fs, std::filesystem::path(FIVEFOLD_FIXTURES) / "hf" / GetParam());
  ASSERT_GE(layouts().size(), 12u);
  for (const auto& layout : layouts())
    for (const auto dtype : {DType::f32, DType::f64})
      for (const auto& c : run(reference, layout, dtype))
        EXPECT_TRUE(c.ok()) << to_string(layout.mesh) << ", " << layout.pipeline.schedule << ", " << dtype
                            << "\n"
                            << to_text({c});
}

// The comparison can fail: another rate, and it does.
TEST(ReferenceLayouts, AnotherLearningRateIsSeen) {
  PosixFileSystem fs;
  auto reference = read_reference(fs, std::filesystem::path(FIVEFOLD_FIXTURES) / "hf/llama");
  reference.lr *= 1.01;
  const auto result = run(reference, {.mesh = {.tp = 2}}, DType::f32);
  EXPECT_TRUE(result[3].ok()) << "gradients of step 0 do not know the rate";
  EXPECT_FALSE(result[4].ok()) << "weights do";
}

}  // namespace
}  // namespace fivefold
