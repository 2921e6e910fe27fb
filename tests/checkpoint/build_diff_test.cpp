// Making, rewriting and comparing checkpoints in one process.
#include <cmath>

#include "checkpoint/build.h"
#include "checkpoint/diff.h"
#include "checkpoint/verify.h"
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

TEST(Builder, MakesACheckpointThatLoads) {
  FaultyFileSystem fs;
  auto parts = parts_at({}, 0);
  fill(parts, "salt");
  CheckpointBuilder builder(fs, "/c/step_00000100", state_at(100));
  for (const auto& part : parts) builder.add(part.name, part.data);
  const auto saved = builder.finish();
  EXPECT_EQ(saved.generation, 1);
  EXPECT_EQ(wrong_after_load(fs, "/c/step_00000100", {.tp = 2}, "salt"), 0);
  EXPECT_EQ(inspect_step(fs, "/c/step_00000100").hash, saved.hash);
}

TEST(Builder, LeavesNothingUnfinished) {
  FaultyFileSystem fs;
  {
    CheckpointBuilder builder(fs, "/c/step_00000100", state_at(100));
    builder.add("x", host_tensor({3}, DType::f32));
  }
  EXPECT_TRUE(fs.list("/c").empty());
}

TEST(Reshard, KeepsEveryBitAndTheState) {
  FaultyFileSystem fs;
  const auto from = save_as(fs, "/c", 5, {.shard = 3, .tp = 2}, "salt").dir;
  for (const int files : {1, 2, 7}) {
    const Path to = Path("/d") / str(files) / "step_00000005";
    reshard(fs, from, to, files, {.compression = Compression::small, .piece_bytes = 64});
    EXPECT_EQ(read_manifest(fs, to).files.size(), static_cast<std::size_t>(files));
    EXPECT_EQ(read_manifest(fs, to).state, state_at(5));
    EXPECT_TRUE(verify_checkpoint(fs, to).empty());
    EXPECT_EQ(wrong_after_load(fs, to, {.pp = 2, .tp = 2}, "salt"), 0);
    EXPECT_TRUE(diff_checkpoints(fs, from, to).equal());
  }
  EXPECT_TRUE(contains(message_of([&] { reshard(fs, from, "/d/1/step_00000005", 1); }), "exists already"));
  EXPECT_TRUE(contains(message_of([&] { reshard(fs, from, "/d/0/x", 0); }), "at least 1 piece, not 0"));
}

Path built(FileSystem& fs, const Path& dir, const std::vector<std::pair<std::string, Tensor>>& tensors,
           std::int64_t step) {
  CheckpointBuilder builder(fs, dir, state_at(step), {.piece_bytes = 64});
  for (const auto& [name, tensor] : tensors) builder.add(name, tensor);
  builder.finish();
  return dir;
}

Tensor numbers(std::int64_t rows, float value) {
  const auto tensor = host_tensor({rows, 10}, DType::f32);
  std::fill_n(tensor.data<float>(), tensor.count(), value);
  return tensor;
}

TEST(Diff, SaysWhichTensorsDifferWhereAndByHowMuch) {
  FaultyFileSystem fs;
  const auto x = numbers(20, 1), changed = numbers(20, 1), nan = numbers(20, 1);
  changed.data<float>()[150] = 1.5f;
  changed.data<float>()[37] = 0.75f;
  nan.data<float>()[3] = std::nanf("");
  const auto a =
      built(fs, "/a/step_00000001",
            {{"only_a", x}, {"same", x}, {"form", x}, {"value", x}, {"nan", nan}, {"poison", x}}, 1);
  const auto b = built(fs, "/b/step_00000002",
                       {{"same", x},
                        {"form", numbers(21, 1)},
                        {"value", changed},
                        {"nan", nan},
                        {"poison", nan},
                        {"only_b", x}},
                       2);
  const auto diff = diff_checkpoints(fs, a, b);
  EXPECT_FALSE(diff.equal());
  EXPECT_EQ(diff.only_in_first, std::vector<std::string>{"only_a"});
  EXPECT_EQ(diff.only_in_second, std::vector<std::string>{"only_b"});
  EXPECT_EQ(diff.compared, 5);
  ASSERT_EQ(diff.tensors.size(), 3u);
  EXPECT_EQ(diff.tensors[0].form, "f32 [20, 10] and f32 [21, 10]");
  EXPECT_EQ(diff.tensors[1].name, "poison");
  EXPECT_TRUE(std::isinf(diff.tensors[1].max_abs));
  EXPECT_EQ(diff.tensors[2].name, "value");
  EXPECT_EQ(diff.tensors[2].differing, 2);
  EXPECT_EQ(diff.tensors[2].first, 37);
  EXPECT_EQ(diff.tensors[2].max_abs, 0.5);
  EXPECT_EQ(diff.state, (std::vector<std::string>{"step 1 and 2", "samples 11 and 19"}));
  EXPECT_TRUE(diff_checkpoints(fs, a, a).equal());
}

// Zeros of different sign are equal numbers and different bits: a bitwise comparison must not pass over them.
TEST(Diff, ComparesBits) {
  FaultyFileSystem fs;
  const auto a = built(fs, "/a/step_00000001", {{"x", numbers(2, 0.0f)}}, 1),
             b = built(fs, "/b/step_00000001", {{"x", numbers(2, -0.0f)}}, 1);
  const auto diff = diff_checkpoints(fs, a, b);
  ASSERT_EQ(diff.tensors.size(), 1u);
  EXPECT_EQ(diff.tensors[0].differing, 20);
  EXPECT_EQ(diff.tensors[0].max_abs, 0);
}

}  // namespace
}  // namespace fivefold::test
