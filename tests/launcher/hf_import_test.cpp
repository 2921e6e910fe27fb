// Import and export: files of transformers come back element for element, also through experts and turned
// matrices.
#include "launcher/hf_import.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "checkpoint/build.h"
#include "checkpoint/diff.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/verify.h"
#include "core/transfer.h"
#include "launcher/options.h"
#include "model/hf_map.h"
#include "model/parameters.h"

namespace fivefold {
namespace {

class HfImport : public testing::Test {
 protected:
  HfImport() : dir_(testing::TempDir() + str("fivefold_import_", getpid(), "_", counter_++)) {
    std::filesystem::create_directories(dir_);
  }
  ~HfImport() override { std::filesystem::remove_all(dir_); }

  static Path fixture(const std::string& name) { return Path(FIVEFOLD_FIXTURES) / "hf" / name; }

  // A checkpoint of random-looking weights as training leaves it.
  Path make_checkpoint(const std::string& preset, DType dtype, bool with_master) {
    Config config;
    config.model = model_preset(preset);
    CheckpointBuilder builder(fs_, dir_ / "made", {.config = to_text(config)});
    CpuStream host;
    const auto memory = make_cpu_memory();
    double value = 0;
    for (const auto& param : parameter_list(config.model)) {
      std::vector<double> values(static_cast<std::size_t>(param.shape.count()));
      for (auto& each : values) each = std::sin(value += 0.7);
      builder.add("model/" + param.name, upload(*memory, values, param.shape, dtype, Tag::data, host));
      if (with_master)
        builder.add("master/" + param.name,
                    upload(*memory, values, param.shape, DType::f32, Tag::data, host));
    }
    return builder.finish().dir;
  }

  std::string refusal(const std::function<void()>& act) {
    try {
      act();
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }

  static inline int counter_ = 0;
  Path dir_;
  PosixFileSystem fs_;
};

// Every tensor of `a` is in `b` with the same bits, and the other way round.
void expect_equal_files(FileSystem& fs, const Path& a, const Path& b) {
  const SafetensorsReader first(fs, a), second(fs, b);
  CpuStream host;
  const auto memory = make_cpu_memory();
  ASSERT_EQ(first.tensors().size(), second.tensors().size());
  for (const auto& tensor : first.tensors()) {
    const auto& other = second.at(tensor.name);
    ASSERT_EQ(other.shape, tensor.shape) << tensor.name;
    ASSERT_EQ(other.dtype, tensor.dtype) << tensor.name;
    const auto x = empty(*memory, tensor.shape, DType::f32, Tag::data, host);
    const auto y = empty(*memory, tensor.shape, DType::f32, Tag::data, host);
    first.read(tensor.name, whole(tensor.shape), x);
    second.read(tensor.name, whole(tensor.shape), y);
    EXPECT_EQ(to_host(x, host), to_host(y, host)) << tensor.name;
  }
}

class HfImportOfFixture : public HfImport, public testing::WithParamInterface<std::string> {};

TEST_P(HfImportOfFixture, ComesBackElementForElement) {
  const auto report = import_hf(fs_, fixture(GetParam()), dir_ / "ckpt");
  EXPECT_EQ(report.tensors, static_cast<std::int64_t>(parameter_list(report.model).size()));
  EXPECT_TRUE(verify_checkpoint(fs_, dir_ / "ckpt").empty());
  export_hf(fs_, dir_ / "ckpt", dir_ / "files");
  expect_equal_files(fs_, fixture(GetParam()), dir_ / "files");
  const auto again = import_hf(fs_, dir_ / "files", dir_ / "again");
  EXPECT_EQ(again.model, report.model);
  EXPECT_TRUE(diff_checkpoints(fs_, dir_ / "ckpt", dir_ / "again").equal());
}
INSTANTIATE_TEST_SUITE_P(Hf, HfImportOfFixture,
                         testing::Values("llama", "gpt2", "qwen2", "qwen3", "mistral_window", "yarn_scaling",
                                         "llama_bf16_sharded"));

TEST_F(HfImport, ExpertsSurviveBothWays) {
  const auto made = make_checkpoint("tiny-moe", DType::f32, false);
  export_hf(fs_, made, dir_ / "files");
  EXPECT_NE(SafetensorsReader(fs_, dir_ / "files").find("model.layers.1.mlp.experts.7.up_proj.weight"),
            nullptr);
  import_hf(fs_, dir_ / "files", dir_ / "again");
  EXPECT_TRUE(diff_checkpoints(fs_, made, dir_ / "again").equal());
}

TEST_F(HfImport, MastersAreUsedWhereMoreIsAskedThanTheComputeCopyHolds) {
  const auto made = make_checkpoint("tiny", DType::bf16, true);
  EXPECT_EQ(export_hf(fs_, made, dir_ / "short").dtype, DType::bf16);
  export_hf(fs_, made, dir_ / "long", DType::f32);
  CpuStream host;
  const auto memory = make_cpu_memory();
  const auto out = empty(*memory, {64}, DType::f32, Tag::data, host);
  SafetensorsReader(fs_, dir_ / "long").read("model.norm.weight", whole({64}), out);
  bool rounded = true;
  for (int i = 0; i < 64; ++i)
    rounded = rounded && static_cast<float>(bf16(out.data<float>()[i])) == out.data<float>()[i];
  EXPECT_FALSE(rounded);
  import_hf(fs_, dir_ / "short", dir_ / "again");
  EXPECT_EQ(read_manifest(fs_, dir_ / "again").find("model/head.weight")->dtype, DType::bf16);
}

TEST_F(HfImport, RefusesWhatTheFamilyCannotExpress) {
  Config config;
  config.model = model_preset("tiny");
  config.model.window = 16;
  CheckpointBuilder builder(fs_, dir_ / "made", {.config = to_text(config)});
  CpuStream host;
  builder.add("model/embed.weight",
              upload(*make_cpu_memory(), std::vector<double>{1}, {1}, DType::f32, Tag::data, host));
  builder.finish();
  const auto message = refusal([&] { export_hf(fs_, dir_ / "made", dir_ / "files"); });
  EXPECT_NE(message.find("model.window = 16 (would become 0)"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "files"));
}

TEST_F(HfImport, NothingIsOverwritten) {
  import_hf(fs_, fixture("qwen2"), dir_ / "ckpt");
  EXPECT_NE(refusal([&] { import_hf(fs_, fixture("qwen2"), dir_ / "ckpt"); }).find("exists already"),
            std::string::npos);
  std::filesystem::create_directory(dir_ / "full");
  std::ofstream(dir_ / "full" / "precious") << "x";
  EXPECT_NE(refusal([&] { export_hf(fs_, dir_ / "ckpt", dir_ / "full"); }).find("holds files already"),
            std::string::npos);
  EXPECT_NE(refusal([&] { import_hf(fs_, dir_ / "full", dir_ / "fresh"); }).find("config.json"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "fresh"));
}

// B65: a tensor too many or too few is no successful import.
TEST_F(HfImport, WeightsMustMatchTheShapeExactly) {
  const auto copy = dir_ / "copy";
  std::filesystem::create_directory(copy);
  std::filesystem::copy(fixture("qwen2") / "model.safetensors", copy / "model.safetensors");
  const auto with_config = [&](const std::string& from, const std::string& to) {
    std::string text = read_text(fs_, fixture("qwen2") / "config.json");
    text.replace(text.find(from), from.size(), to);
    std::ofstream(copy / "config.json") << text;
    return refusal([&] { import_hf(fs_, copy, dir_ / "ckpt"); });
  };
  EXPECT_NE(with_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1").find("no place"),
            std::string::npos);
  EXPECT_NE(with_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3").find("lack"),
            std::string::npos);
  EXPECT_NE(with_config("\"vocab_size\": 120", "\"vocab_size\": 121").find("[120, 32]"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "ckpt"));
}

}  // namespace
}  // namespace fivefold
