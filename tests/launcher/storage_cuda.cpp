// On a CUDA device: split masters train as whole ones do, and a plan's memory is the device's account to the
// byte.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "launcher/batches.h"
#include "launcher/bench_step.h"
#include "launcher/engine_options.h"
#include "launcher/plan.h"
#include "parallel/comm/lone_transport.h"
#include "tests/support/trajectory.h"

namespace fivefold {
namespace {

constexpr Device kDevice{DeviceKind::cuda, 0};

TEST(GpuStorage, SplitMastersTrainAsWholeOnesDo) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  for (const int zero : {1, 2, 3}) {
    test::Problem p;
    p.model = zero == 2 ? test::small_gpt2() : test::small_llama();
    p.dtype = DType::bf16, p.steps = 20, p.device = kDevice;
    test::Layout layout{.mesh = {.shard = 2}};
    layout.stage.zero.stage = zero;
    const auto whole = train(p, layout);
    layout.stage.zero.storage.master = MasterForm::remainder;
    EXPECT_EQ(hash_of(whole), hash_of(train(p, layout))) << to_string(layout);
  }
}

MemoryReport report_of_a_step(const Config& config) {
  const auto transport = make_lone_transport();
  auto options = engine_options(config, 1);
  options.device = kDevice;
  Engine engine(std::move(options), *transport, {HostSlot{"", 0}});
  engine.initialize({.seed = 1});
  const auto plan = plan_batches(engine.mesh(), config.train.global_batch, config.train.micro_batch,
                                 config.model.window, config.parallel.cp_strategy);
  const BatchSource source = [&](auto first, auto count, auto real) {
    return random_batch(first, count, real, sequence_length(config), config.model.vocab);
  };
  for (int step = 0; step < 2; ++step) {
    const auto batches = step_batches(source, plan, step * config.train.global_batch);
    engine.update(engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum), 1e-3);
  }
  return engine.memory().report();
}

TEST(GpuStorage, PlansMemoryToTheByte) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  for (const char* preset : {"tiny", "tiny-gpt2"})
    for (const auto master : {MasterStorage::automatic, MasterStorage::split}) {
      Config config;
      config.model = model_preset(preset);
      config.train.precision = DType::bf16, config.train.device = DeviceChoice::cuda;
      config.train.master = master;
      config.train.global_batch = 8, config.train.micro_batch = 4;
      const auto planned = make_plan(config, 1).ranks[0].memory;
      const auto seen = report_of_a_step(config);
      EXPECT_EQ(planned.peak, seen.peak) << preset;
      EXPECT_EQ(planned.peak_total, seen.peak_total) << preset;
    }
}

}  // namespace
}  // namespace fivefold
