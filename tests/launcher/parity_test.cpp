// Trajectories of Hugging Face transformers, the outside oracle: every stored folder on one and on four
// ranks, in f32 and f64.
#include "launcher/parity.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "parallel/comm/thread_world.h"

namespace fivefold {
namespace {

Path folder(const std::string& name) { return Path(FIVEFOLD_FIXTURES) / "hf" / name; }

// What rank 0 found.
std::vector<Comparison> compare(const Reference& reference, DType dtype, const MeshShape& mesh,
                                std::int64_t micro_batch) {
  std::vector<Comparison> found;
  run_ranks(mesh.world(), [&](Transport& transport) {
    std::vector<HostSlot> slots;
    for (int r = 0; r < mesh.world(); ++r) slots.push_back({"host", r});
    Engine engine({.model = reference.model,
                   .mesh = mesh,
                   .dtype = dtype,
                   .stage = {.loss_rows = 50},
                   .optimizer = reference.optimizer},
                  transport, slots);
    const auto mine = compare_with_reference(engine, reference, micro_batch);
    if (transport.world().rank() == 0) found = mine;
  });
  return found;
}

class StoredTrajectory : public testing::TestWithParam<const char*> {};

TEST_P(StoredTrajectory, IsReproduced) {
  PosixFileSystem fs;
  const auto reference = read_reference(fs, folder(GetParam()));
  for (const auto dtype : {DType::f64, DType::f32})
    for (const int ranks : {1, 4}) {
      const auto found = compare(reference, dtype, {.shard = ranks}, ranks == 1 ? 2 : 1);
      ASSERT_EQ(found.size(), 5u);
      for (const auto& c : found)
        EXPECT_TRUE(c.ok()) << dtype << " on " << ranks << " ranks:\n" << to_text(found);
    }
}
INSTANTIATE_TEST_SUITE_P(Hf, StoredTrajectory,
                         testing::Values("llama", "qwen3", "gpt2", "qwen2", "mistral_window",
                                         "linear_scaling", "llama3_scaling", "yarn_scaling",
                                         "llama_bf16_sharded"));

TEST(StoredTrajectories, AreAllTested) {
  std::int64_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Path(FIVEFOLD_FIXTURES) / "hf"))
    folders += entry.is_directory();
  EXPECT_EQ(folders, 9) << "a new folder belongs into the list above";
}

// Each part of the comparison can fail: a model, an optimizer or data that are a little wrong.
TEST(StoredTrajectories, SmallFaultsShow) {
  PosixFileSystem fs;
  const auto good = read_reference(fs, folder("qwen2"));
  const auto fails = [&](Reference wrong, const std::string& quantity) {
    wrong.steps = std::min<std::int64_t>(wrong.steps, 3);
    for (const auto& c : compare(wrong, DType::f32, {}, 2))
      if (c.quantity.find(quantity) != std::string::npos) return !c.ok();
    return false;
  };
  auto wrong = good;
  wrong.model.norm_eps *= 10;
  EXPECT_TRUE(fails(wrong, "logits"));
  wrong = good;
  wrong.model.rope_theta *= 1.01;
  EXPECT_TRUE(fails(wrong, "gradients"));
  wrong = good;
  wrong.loss[1] += 2e-5;
  EXPECT_TRUE(fails(wrong, "loss"));
  wrong = good;
  wrong.grad_norm[2] *= 1 + 4e-5;
  EXPECT_TRUE(fails(wrong, "gradient norm"));
  wrong = good;
  wrong.optimizer.weight_decay = 0;
  EXPECT_TRUE(fails(wrong, "weights"));
  wrong = good;
  wrong.tokens[5] = (wrong.tokens[5] + 1) % 120;
  EXPECT_TRUE(fails(wrong, "logits"));
}

TEST(StoredTrajectories, FoldersThatAreNoneAreRefused) {
  PosixFileSystem fs;
  try {
    read_reference(fs, Path(FIVEFOLD_FIXTURES) / "nothing");
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("reference.json"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fivefold
