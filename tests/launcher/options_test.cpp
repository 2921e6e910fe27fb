// Files, precedence, origins and the resolved file.
#include "launcher/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "launcher/option_table.h"

namespace fivefold {
namespace {

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refused_text(const std::string& text) {
  return refusal([&] { resolve(parse_config_text(text, "run.conf")); });
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
}

Setting typed(const std::string& name, const std::string& value) { return {name, value, "command line"}; }

TEST(ConfigFile, SectionsKeysAndComments) {
  const auto settings =
      parse_config_text("# a run\n[train]\nmicro_batch = 4   # sequences\n\n[run]\nname = a b\n", "x");
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings[0].name, "train.micro_batch");
  EXPECT_EQ(settings[0].value, "4");
  EXPECT_EQ(settings[1].value, "a b");
  EXPECT_EQ(settings[1].origin, "x");
}

TEST(ConfigFile, UnknownNamesNameTheNearest) {
  expect_words(refused_text("[train]\nmicro_bach = 4\n"),
               {"run.conf", "'train.micro_bach'", "'train.micro_batch'"});
  expect_words(refused_text("[tarin]\nmicro_batch = 4\n"), {"section 'tarin'", "'train'"});
  expect_words(refused_text("[paralel]\n"), {"section 'paralel'", "'parallel'"});
  expect_words(refused_text("tp = 2\n"), {"'tp'", "'parallel.tp'"});
}

TEST(ConfigFile, DuplicatesAndMalformedLinesAreRefused) {
  expect_words(refused_text("[run]\nseed = 1\nseed = 2\n"), {"run.conf", "run.seed", "twice"});
  expect_words(refused_text("[run]\nseed = 1\n[train]\nthreads = 1\n[run]\nseed = 2\n"),
               {"run.seed", "twice"});
  expect_words(refused_text("[run]\nseed 1\n"), {"run.conf", "key = value"});
}

TEST(ConfigFile, WrongValuesSayWhatIsRight) {
  expect_words(refused_text("[train]\nmicro_batch = 0\n"),
               {"run.conf", "train.micro_batch = '0'", "an integer of at least 1"});
  expect_words(refused_text("[train]\nprecision = fp32\n"), {"'fp32'", "f32, bf16, f64", "nearest is 'f32'"});
  expect_words(refused_text("[checkpoint]\nstaging = 2GB\n"), {"'2GB'", "2GiB"});
  expect_words(refused_text("[parallel]\nzero = 4\n"), {"an integer in 1..3"});
  expect_words(refused_text("[model]\nrope_scaling = dynamic\n"), {"'dynamic'", "llama3"});
}

TEST(ConfigFile, AMissingFileIsNamed) {
  expect_words(refusal([] { read_config_file("no/such/run.conf"); }), {"'no/such/run.conf'"});
}

TEST(Resolve, DefaultsAreComplete) {
  const auto resolved = resolve({});
  EXPECT_EQ(resolved.config, Config{});
  for (const auto& name : option_names()) EXPECT_EQ(resolved.origins.at(name), "default") << name;
}

TEST(Resolve, CommandLineBeatsFileBeatsPresetBeatsDefault) {
  auto settings = parse_config_text("[model]\npreset = tiny\nlayers = 5\nffn = 99\n", "run.conf");
  settings.push_back(typed("model.ffn", "77"));
  const auto resolved = resolve(settings);
  const auto& model = resolved.config.model;
  EXPECT_EQ(model.hidden, 64);
  EXPECT_EQ(resolved.origins.at("model.hidden"), "preset tiny");
  EXPECT_EQ(model.layers, 5);
  EXPECT_EQ(resolved.origins.at("model.layers"), "run.conf");
  EXPECT_EQ(model.ffn, 77);
  EXPECT_EQ(resolved.origins.at("model.ffn"), "command line");
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_EQ(resolved.origins.at("model.norm_eps"), "default");
}

TEST(Resolve, AFamilyBringsItsConventions) {
  const auto resolved =
      resolve({typed("model.family", "gpt2"), typed("model.hidden", "64"), typed("model.heads", "4")});
  EXPECT_EQ(resolved.config.model.position, Position::learned);
  EXPECT_EQ(resolved.origins.at("model.position"), "family gpt2");
  EXPECT_EQ(resolved.origins.at("model.family"), "command line");
  EXPECT_EQ(resolved.config.model.head_dim, 16);
  EXPECT_EQ(resolved.origins.at("model.head_dim"), "derived");
}

TEST(Resolve, ShapesComeFromOneSource) {
  expect_words(refusal([] {
                 resolve({typed("model.preset", "tiny"), typed("model.from_hf", "dir")});
               }),
               {"model.preset = tiny", "model.from_hf = dir"});
  expect_words(refusal([] { resolve({typed("model.preset", "tinny")}); }), {"'tinny'", "'tiny'"});
}

TEST(Resolve, ReadsTheShapeOfAHuggingFaceFolder) {
  const auto dir = std::string(FIVEFOLD_FIXTURES) + "/hf/qwen3";
  const auto resolved = resolve({typed("model.from_hf", dir), typed("model.context", "64")});
  EXPECT_EQ(resolved.config.model.family, "qwen3");
  EXPECT_EQ(resolved.config.model.head_dim, 24);
  EXPECT_EQ(resolved.config.model.context, 64);
  EXPECT_EQ(resolved.origins.at("model.qk_norm"), "from_hf " + dir);
  expect_words(refusal([] { resolve({typed("model.from_hf", "nowhere")}); }), {"nowhere/config.json"});
}

TEST(Resolve, ValuesThatAFileCannotHoldAreRefused) {
  expect_words(refusal([] { resolve({typed("run.name", "a#b")}); }), {"run.name", "'#'"});
}

TEST(ResolvedFile, ParsesBackToTheSame) {
  const auto resolved =
      resolve({typed("model.preset", "llama-8b"), typed("run.seed", "18446744073709551615"),
               typed("optimizer.lr", "0.00012345678901234567"), typed("run.allow_change", "a.b, c"),
               typed("parallel.stage_layers", "3,4"), typed("launch.deadline_init", "90s"),
               typed("train.master", "bf16"), typed("parallel.shard", "4"),
               typed("model.rope_scaling", "yarn,factor=4,original_context=64,truncate=false")});
  const auto text = to_text(resolved);
  const auto again = resolve(parse_config_text(text, "config.resolved.conf"));
  EXPECT_EQ(again.config, resolved.config);
  EXPECT_EQ(to_text(again.config), to_text(resolved.config));
  EXPECT_NE(text.find("hidden = 4096 "), std::string::npos) << text;
  EXPECT_NE(text.find("# preset llama-8b\n"), std::string::npos) << text;
}

TEST(ResolvedFile, EveryPresetParsesBack) {
  for (const auto& name : preset_names()) {
    const auto resolved = resolve({typed("model.preset", name)});
    EXPECT_EQ(resolve(parse_config_text(to_text(resolved.config), "x")).config, resolved.config) << name;
  }
}

TEST(Changes, NameBothValues) {
  auto before = resolve({}).config;
  auto after = before;
  EXPECT_TRUE(changes(before, after).empty());
  after.optimizer.lr = 1e-3;
  after.data.sequence = 64;
  const auto found = changes(before, after);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "data.sequence");
  EXPECT_EQ(found[1].before, "0.0003");
  EXPECT_EQ(found[1].after, "0.001");
}

// The contract with users: sections and keys. Adding one is fine, a renamed or lost one breaks scripts.
TEST(OptionTable, HasTheKeysThatUsersRelyOn) {
  const std::vector<std::pair<std::string, std::string>> sections{
      {"run", "dir name seed steps resume init allow_change stop_before"},
      {"model",
       "preset from_hf family layers hidden heads kv_heads head_dim ffn vocab context tie_embeddings "
       "init_std norm norm_eps "
       "activation qkv_bias out_bias mlp_bias position rope_theta rope_style rope_scaling qk_norm window "
       "q_rank kv_rank "
       "qk_nope_dim qk_rope_dim v_dim experts experts_per_token expert_ffn shared_experts first_dense "
       "moe_every router "
       "normalize_topk routed_scale expert_groups groups_per_token aux_loss aux_scope router_z_loss "
       "router_bias_rate "
       "capacity"},
      {"data", "train valid tokenizer sequence documents order eval_every eval_batches"},
      {"parallel",
       "tp pp chunks cp ep shard replicate zero reduce reshard schedule stage_layers cp_strategy transport "
       "overlap moe_arena "
       "route_force"},
      {"train",
       "global_batch micro_batch precision device threads deterministic recompute loss_rows master moments "
       "gradients "
       "memory_limit max_skips"},
      {"optimizer", "name lr min_lr warmup_steps decay decay_steps beta1 beta2 eps weight_decay clip"},
      {"checkpoint", "every keep async staging compress allow_missing"},
      {"launch", "deadline_init deadline_step deadline_save restarts hash_every"},
      {"log", "every level tensorboard trace"}};
  for (const auto& [section, keys] : sections) {
    std::istringstream in(keys);
    for (std::string key; in >> key;)
      EXPECT_NE(find_option(section + "." + key), nullptr) << section << "." << key;
  }
}

TEST(OptionTable, EveryOptionHasHelpAndADefaultThatItAccepts) {
  Config config;
  for (const auto& section : option_table())
    for (const auto& option : section.options) {
      EXPECT_FALSE(option.help.empty()) << option.name();
      EXPECT_TRUE(is_shape_source(option.name()) || option.set(config, option.get(config))) << option.name();
    }
  EXPECT_EQ(config, Config{});
}

}  // namespace
}  // namespace fivefold
