// The map against the headers of real files: every tensor of theirs and every element of ours occurs exactly
// once.
#include "model/hf_map.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "core/error.h"
#include "core/json.h"
#include "model/hf_config.h"
#include "model/parameters.h"

namespace fivefold {
namespace {

std::string folder(const std::string& name) { return std::string(FIVEFOLD_FIXTURES) + "/hf/" + name + "/"; }

using Shapes = std::map<std::string, Shape>;

Shape shape_of(const Json& dims) {
  if (dims.size() == 1) return {dims[0].get<std::int64_t>()};
  if (dims.size() == 2) return {dims[0].get<std::int64_t>(), dims[1].get<std::int64_t>()};
  return {dims[0].get<std::int64_t>(), dims[1].get<std::int64_t>(), dims[2].get<std::int64_t>()};
}

// Names and shapes in the header of a safetensors file, with `prefix` taken off.
Shapes header(const std::string& path, const std::string& prefix = "") {
  std::ifstream in(path, std::ios::binary);
  std::uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string text(length, ' ');
  in.read(text.data(), static_cast<std::streamsize>(length));
  const auto json = Json::parse(text);
  Shapes shapes;
  for (const auto& [name, entry] : json.items())
    if (name != "__metadata__" && name.starts_with(prefix))
      shapes[name.substr(prefix.size())] = shape_of(entry["shape"]);
  return shapes;
}

ModelConfig fixture_config(const std::string& name) {
  std::ifstream in(folder(name) + "config.json");
  return config_from_hf(Json::parse(in));
}

// Checks that the pieces tile every tensor of ours and of theirs.
void expect_tiling(const ModelConfig& config, const std::vector<HfPiece>& pieces) {
  std::map<std::string, std::int64_t> ours, theirs;
  for (const auto& piece : pieces) {
    EXPECT_EQ(piece.our_row, ours[piece.ours]) << piece.ours << " from " << piece.theirs;
    ours[piece.ours] += piece.rows;
    EXPECT_EQ(piece.their_row, theirs[piece.theirs]) << piece.theirs;
    theirs[piece.theirs] += piece.rows;
  }
  for (const auto& param : parameter_list(config)) EXPECT_EQ(ours[param.name], param.shape[0]) << param.name;
  for (const auto& piece : pieces) {
    const auto& shape = piece.their_shape;
    const auto columns = shape.rank() == 1 ? 1 : piece.transposed ? shape[0] : shape[shape.rank() - 1];
    EXPECT_EQ(theirs[piece.theirs], shape.count() / columns) << piece.theirs;
  }
}

Shapes their_shapes(const std::vector<HfPiece>& pieces) {
  Shapes shapes;
  for (const auto& piece : pieces) shapes[piece.theirs] = piece.their_shape;
  return shapes;
}

class HfMapOfFixture : public testing::TestWithParam<std::string> {};

TEST_P(HfMapOfFixture, MatchesTheFiles) {
  const auto config = fixture_config(GetParam());
  const auto pieces = hf_map(config);
  expect_tiling(config, pieces);
  const auto in_gradients = header(folder(GetParam()) + "reference.safetensors", "grad.");
  EXPECT_EQ(their_shapes(pieces), in_gradients);
}
INSTANTIATE_TEST_SUITE_P(Hf, HfMapOfFixture,
                         testing::Values("llama", "gpt2", "qwen3", "qwen2", "mistral_window",
                                         "llama_bf16_sharded"));

TEST(HfMap, Gpt2SplitsItsFusedTurnedMatrix) {
  auto config = model_preset("tiny-gpt2");
  const auto pieces = hf_map(config);
  const auto find = [&](const std::string& ours) {
    for (const auto& piece : pieces)
      if (piece.ours == ours) return piece;
    return HfPiece{};
  };
  const auto v = find("blocks.1.attn.v.weight");
  EXPECT_EQ(v.theirs, "transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(v.their_shape, (Shape{64, 192}));
  EXPECT_EQ(v.their_row, 128);
  EXPECT_TRUE(v.transposed);
  const auto bias = find("blocks.1.attn.k.bias");
  EXPECT_EQ(bias.their_shape, (Shape{192}));
  EXPECT_EQ(bias.their_row, 64);
  EXPECT_FALSE(bias.transposed);
  EXPECT_FALSE(find("embed.weight").transposed);
}

TEST(HfMap, ExpertsApartAndTogether) {
  const auto config = model_preset("tiny-moe");  // qwen3_moe, 8 experts of 48, 64 wide
  const auto apart = hf_map(config);
  expect_tiling(config, apart);
  auto shapes = their_shapes(apart);
  EXPECT_EQ(shapes.at("model.layers.1.mlp.experts.7.up_proj.weight"), (Shape{48, 64}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.experts.0.down_proj.weight"), (Shape{64, 48}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp.gate.weight"), (Shape{8, 64}));
  for (const auto& piece : apart) {
    if (piece.theirs == "model.layers.0.mlp.experts.3.up_proj.weight") {
      EXPECT_EQ(piece.our_row, 7 * 48);
    }
  }
  const auto together = hf_map(config, HfExperts::together);
  expect_tiling(config, together);
  shapes = their_shapes(together);
  EXPECT_EQ(shapes.at("model.layers.0.mlp.experts.gate_up_proj"), (Shape{8, 96, 64}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp.experts.down_proj"), (Shape{8, 64, 48}));
}

TEST(HfMap, MixtralHasNamesOfItsOwn) {
  auto config = model_preset("mixtral-8x7b");
  config.layers = 1;
  const auto pieces = hf_map(config);
  expect_tiling(config, pieces);
  const auto shapes = their_shapes(pieces);
  EXPECT_EQ(shapes.count("model.layers.0.block_sparse_moe.gate.weight"), 1u);
  EXPECT_EQ(shapes.at("model.layers.0.block_sparse_moe.experts.7.w2.weight"), (Shape{4096, 14336}));
  EXPECT_EQ(
      their_shapes(hf_map(config, HfExperts::together)).count("model.layers.0.mlp.experts.gate_up_proj"), 1u);
}

TEST(HfMap, EveryPresetTiles) {
  for (const auto& name : preset_names()) {
    auto config = model_preset(name);
    config.layers = 2;
    SCOPED_TRACE(name);
    expect_tiling(config, hf_map(config));
  }
}

TEST(HfMap, RefusesWhatAFamilyCannotName) {
  const auto refusal = [](ModelConfig config) -> std::string {
    try {
      hf_map(config);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  auto config = model_preset("tiny");
  config.qk_norm = QkNorm::head;
  EXPECT_NE(refusal(config).find("blocks.0.attn.q_norm.weight"), std::string::npos) << refusal(config);
  config = model_preset("tiny");
  config.position = Position::learned;
  EXPECT_NE(refusal(config).find("learned positions"), std::string::npos);
  config = model_preset("tiny-moe");
  config.family = "llama";
  EXPECT_NE(refusal(config).find("experts"), std::string::npos);
}

TEST(HfMap, ForeignSpellingsAndRedundantTensors) {
  const auto gpt2 = model_preset("tiny-gpt2");
  EXPECT_EQ(hf_canonical_name(gpt2, "h.0.ln_1.weight"), "transformer.h.0.ln_1.weight");
  EXPECT_EQ(hf_canonical_name(gpt2, "transformer.wte.weight"), "transformer.wte.weight");
  EXPECT_TRUE(hf_is_redundant(gpt2, "transformer.h.3.attn.bias"));
  EXPECT_TRUE(hf_is_redundant(gpt2, "lm_head.weight"));
  EXPECT_FALSE(hf_is_redundant(gpt2, "transformer.h.3.attn.c_attn.bias"));
  const auto llama = model_preset("tiny");
  EXPECT_EQ(hf_canonical_name(llama, "model.norm.weight"), "model.norm.weight");
  EXPECT_TRUE(hf_is_redundant(llama, "model.layers.0.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(hf_is_redundant(llama, "lm_head.weight"));
}

}  // namespace
}  // namespace fivefold
