// Generation: sampling as a pure function, cached against recomputed logits, seeds, and the command's
// mistakes.
#include "launcher/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "checkpoint/save.h"
#include "core/philox.h"
#include "data/byte_tokenizer.h"
#include "launcher/generate_command.h"
#include "launcher/hf_import.h"
#include "launcher/model_state.h"
#include "launcher/options.h"
#include "launcher/world.h"
#include "tests/checkpoint/temp_dir.h"

namespace fivefold {
namespace {

using Ids = std::vector<std::int32_t>;

// How often each token is picked for `n` values of u, evenly spread.
std::vector<int> picks(const std::vector<double>& logits, const SamplingOptions& options, int n) {
  std::vector<int> out(logits.size());
  for (int i = 0; i < n; ++i) ++out[static_cast<std::size_t>(sample(logits, options, (i + 0.5) / n))];
  return out;
}

std::vector<double> logs(std::vector<double> probabilities) {
  for (auto& p : probabilities) p = std::log(p);
  return probabilities;
}

TEST(Sample, GreedyTakesTheLargestAndOfEqualOnesTheLowerId) {
  for (const double u : {0.001, 0.5, 0.999}) {
    EXPECT_EQ(sample(std::vector<double>{1, 3, 2}, {.greedy = true}, u), 1);
    EXPECT_EQ(sample(std::vector<double>{-5, -1, -1, -2}, {.greedy = true}, u), 1);
  }
}

TEST(Sample, OneCandidateIsGreedy) {
  std::vector<double> logits(50);
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < logits.size(); ++i)
      logits[i] = philox_normal(3, static_cast<std::uint64_t>(round), i);
    const auto best = sample(logits, {.greedy = true}, 0.5);
    for (const double u : {1e-9, 0.3, 0.7, 1 - 1e-9}) {
      EXPECT_EQ(sample(logits, {.top_k = 1}, u), best);
      EXPECT_EQ(sample(logits, {.top_p = 1e-9}, u), best);
    }
  }
}

TEST(Sample, TokensAreAsFrequentAsTheirProbability) {
  const auto logits = logs({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(picks(logits, {}, 1000), (std::vector<int>{100, 400, 200, 300}));
}

TEST(Sample, TemperatureIsAPower) {
  // Half the temperature squares the odds: 0.8^2 to 0.2^2 is 16 to 1.
  EXPECT_EQ(picks(logs({0.2, 0.8}), {.temperature = 0.5}, 1700), (std::vector<int>{100, 1600}));
  EXPECT_EQ(picks(logs({0.64, 0.04}), {.temperature = 2}, 1000), (std::vector<int>{800, 200}));
}

TEST(Sample, TopKKeepsTheLargest) {
  const auto logits = logs({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(picks(logits, {.top_k = 2}, 700), (std::vector<int>{0, 400, 0, 300}));
  EXPECT_EQ(picks(logits, {.top_k = 9}, 1000), picks(logits, {}, 1000));
  EXPECT_EQ(picks({1, 1, 1, 1}, {.top_k = 2}, 100), (std::vector<int>{50, 50, 0, 0}))
      << "equal logits: lower ids";
}

TEST(Sample, TopPKeepsTheFewestThatReachIt) {
  // Four equal tokens: sums of 1/4 are exact, so the boundaries are too.
  const std::vector<double> equal(4, 0.7);
  const auto kept = [&](double p) {
    const auto n = picks(equal, {.top_p = p}, 1200);
    return 4 - std::count(n.begin(), n.end(), 0);
  };
  EXPECT_EQ(kept(0.25), 1);
  EXPECT_EQ(kept(std::nextafter(0.25, 1)), 2);
  EXPECT_EQ(kept(0.5), 2);
  EXPECT_EQ(kept(0.75), 3);
  EXPECT_EQ(kept(std::nextafter(0.75, 1)), 4);
  EXPECT_EQ(kept(1), 4);
  EXPECT_EQ(picks(logs({0.1, 0.5, 0.4}), {.top_p = 0.6}, 900), (std::vector<int>{0, 500, 400}))
      << "kept ones share what is left";
}

TEST(Sample, TopPCountsAfterTopK) {
  // Of the three kept by k, with 3/6 2/6 1/6, the first alone reaches one half.
  const auto logits = logs({0.3, 0.2, 0.1, 0.4e-9});
  EXPECT_EQ(picks(logits, {.top_k = 3, .top_p = 0.49}, 10)[0], 10);
  EXPECT_GT(picks(logits, {.top_k = 3, .top_p = 0.51}, 10)[1], 0);
}

TEST(Sample, ImpossibleTokensAreNeverPicked) {
  const double none = -INFINITY;
  for (const double u : {1e-12, 0.5, 1 - 1e-12}) {
    EXPECT_EQ(sample(std::vector<double>{none, 2, none}, {}, u), 1);
    EXPECT_EQ(sample(std::vector<double>{none, 2, -1e9}, {}, u), 1) << "a probability that underflows";
  }
  EXPECT_THROW(sample(std::vector<double>{none, none}, {}, 0.5), Error);
  EXPECT_THROW(sample(std::vector<double>{0, NAN}, {}, 0.5), Error);
  EXPECT_THROW(sample(std::vector<double>{0, INFINITY}, {}, 0.5), Error);
}

// Models that differ in what a cache could get wrong: positions, windows, groups of heads, norms of q and k.
std::vector<ModelConfig> models() {
  ModelConfig llama;
  llama.layers = 2, llama.hidden = 16, llama.heads = 4, llama.kv_heads = 2, llama.head_dim = 4,
  llama.ffn = 24;
  llama.vocab = 31, llama.context = 10, llama.init_std = 0.3;
  auto window = llama, gpt2 = llama, qwen3 = llama;
  window.window = 3;
  gpt2.position = Position::learned, gpt2.norm = Norm::layer, gpt2.activation = Activation::gelu,
  gpt2.tie_embeddings = true;
  gpt2.qkv_bias = gpt2.out_bias = gpt2.mlp_bias = true, gpt2.kv_heads = 4;
  qwen3.qk_norm = QkNorm::head, qwen3.kv_heads = 1, qwen3.rope_style = RopeStyle::interleaved;
  return {complete(llama), complete(window), complete(gpt2), complete(qwen3)};
}

void with_engine(const ModelConfig& model, DType dtype, const std::function<void(Engine&)>& body) {
  run_world({.ranks = 1, .transport = TransportName::thread}, [&](RankContext& context) {
    Engine engine({.model = model, .mesh = {}, .dtype = dtype}, context.transport, context.slots);
    engine.initialize({.seed = 5});
    body(engine);
    return 0;
  });
}

Ids random_ids(std::int64_t count, std::int64_t vocab) {
  Ids out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<std::int32_t>(philox(8, static_cast<std::uint64_t>(i), 0)[0] %
                                            static_cast<std::uint64_t>(vocab)));
  return out;
}

// The logits behind the last token, by running the whole window as one micro-batch.
std::vector<double> recomputed(Engine& engine, const Ids& tokens) {
  const auto& model = engine.options().model;
  const auto count = std::min<std::int64_t>(static_cast<std::int64_t>(tokens.size()), model.context);
  MicroBatch b{.sequences = 1, .sequence = count, .index_end = count};
  b.tokens.assign(tokens.end() - count, tokens.end());
  b.targets.assign(static_cast<std::size_t>(count), kNoTarget);
  b.position.resize(static_cast<std::size_t>(count));
  std::iota(b.position.begin(), b.position.end(), 0);
  b.q_index = b.k_index = b.position;
  b.first_visible.assign(static_cast<std::size_t>(count), 0);
  if (model.window > 0) apply_window(b, model.window);
  const auto all = engine.logits(b);
  return {all.end() - model.vocab, all.end()};
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out = std::max(out, std::abs(a[i] - b[i]));
  return out;
}

TEST(TokenDecoder, CachedLogitsAreTheRecomputedOnesAlsoBeyondTheContext) {
  for (const auto& model : models())
    with_engine(model, DType::f64, [&](Engine& engine) {
      TokenDecoder decoder(engine);
      const auto ids = random_ids(model.context + 4, model.vocab);
      for (std::size_t n = 3; n <= ids.size(); ++n) {
        const Ids tokens(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
        const auto wanted = recomputed(engine, tokens);
        EXPECT_LT(largest_difference(decoder.next_logits(tokens), wanted),
                  1e-12 * std::abs(*std::max_element(wanted.begin(), wanted.end())))
            << n << " tokens, window " << model.window;
        if (static_cast<std::int64_t>(n) <= model.context) {
          EXPECT_EQ(decoder.rows_run(), static_cast<std::int64_t>(n)) << "each row runs once";
        }
      }
      EXPECT_EQ(decoder.rows_run(), model.context * 5);
    });
}

TEST(TokenDecoder, AnotherSequenceStartsAnew) {
  with_engine(models()[0], DType::f64, [&](Engine& engine) {
    TokenDecoder decoder(engine);
    decoder.next_logits(Ids{1, 2, 3, 4});
    for (const Ids& tokens : {Ids{1, 2, 9, 4, 5}, Ids{1, 2}, Ids{1, 2}})
      EXPECT_LT(largest_difference(decoder.next_logits(tokens), recomputed(engine, tokens)), 1e-12);
  });
}

TEST(TokenDecoder, LongPromptsGoInPieces) {
  auto model = models()[0];
  model.context = 1200;
  with_engine(model, DType::f64, [&](Engine& engine) {
    TokenDecoder decoder(engine);
    const auto tokens = random_ids(1100, model.vocab);
    EXPECT_LT(largest_difference(decoder.next_logits(tokens), recomputed(engine, tokens)), 1e-12);
    EXPECT_EQ(decoder.rows_run(), 1100);
  });
}

TEST(TokenDecoder, NeedsWeightsAloneInMemory) {
  run_world({.ranks = 1, .transport = TransportName::thread}, [&](RankContext& context) {
    Engine engine({.model = models()[2], .mesh = {}, .stage = {.zero = {.trains = false}}}, context.transport,
                  context.slots);
    TokenDecoder(engine).next_logits(Ids{1, 2, 3});
    const auto peak = [&](Tag tag) { return engine.memory().report().peak[static_cast<std::size_t>(tag)]; };
    EXPECT_GE(peak(Tag::weights), 4 * parameter_count(models()[2]));
    EXPECT_EQ(peak(Tag::gradients), 0);
    EXPECT_LT(peak(Tag::moments), 1024) << "the optimizer's few numbers";
    return 0;
  });
}

Ids generated(Engine& engine, const Ids& prompt, const GenerateOptions& options) {
  TokenDecoder decoder(engine);
  Ids emitted;
  const auto all = generate(decoder, prompt, options, [&](std::int32_t id) { emitted.push_back(id); });
  EXPECT_EQ(Ids(all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end()), emitted);
  return all;
}

TEST(Generate, SeedsReproduceAndALongerPromptGoesOnAlike) {
  with_engine(models()[0], DType::f64, [&](Engine& engine) {
    const Ids prompt{4, 7};
    const auto once = generated(engine, prompt, {.max_tokens = 30, .seed = 11});
    EXPECT_EQ(once.size(), 32u);
    EXPECT_EQ(generated(engine, prompt, {.max_tokens = 30, .seed = 11}), once);
    EXPECT_NE(generated(engine, prompt, {.max_tokens = 30, .seed = 12}), once);
    EXPECT_EQ(generated(engine, Ids(once.begin(), once.begin() + 17), {.max_tokens = 15, .seed = 11}), once);
  });
}

TEST(Generate, GreedyTakesTheLargestLogit) {
  with_engine(models()[2], DType::f64, [&](Engine& engine) {
    const auto all = generated(engine, {4, 7}, {.max_tokens = 12, .sampling = {.greedy = true}});
    for (std::size_t n = 2; n < all.size(); ++n) {
      const auto logits = recomputed(engine, Ids(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)));
      EXPECT_EQ(all[n], std::max_element(logits.begin(), logits.end()) - logits.begin());
    }
    EXPECT_EQ(generated(engine, {4, 7}, {.max_tokens = 12, .sampling = {.top_k = 1}, .seed = 3}), all);
  });
}

TEST(Generate, EndsBeforeTheStopToken) {
  with_engine(models()[0], DType::f64, [&](Engine& engine) {
    const auto all = generated(engine, {4, 7}, {.max_tokens = 10, .sampling = {.greedy = true}});
    const auto stop = all[6];
    const auto first = std::find(all.begin() + 2, all.end(), stop) - all.begin();
    EXPECT_EQ(generated(engine, {4, 7}, {.max_tokens = 10, .sampling = {.greedy = true}, .stop = stop}),
              Ids(all.begin(), all.begin() + first));
  });
}

class GenerateCommand : public testing::Test {
 protected:
  void SetUp() override {
    PosixFileSystem fs;
    checkpoint_ =
        import_hf(fs, Path(FIVEFOLD_FIXTURES) / "hf/llama", dir_.path() / "step_00000000").saved.dir.string();
  }
  std::string output(std::vector<std::string> args) const {
    args.insert(args.begin(), {"--checkpoint", checkpoint_});
    testing::internal::CaptureStdout();
    const int code = generate_command(args);
    const auto text = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, 0);
    return text;
  }
  // The sentence of the UserError that the arguments cause.
  static std::string mistake(const std::vector<std::string>& args) {
    try {
      generate_command(args);
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  }
  std::string mistake_here(std::vector<std::string> args) const {
    args.insert(args.begin(), {"--checkpoint", checkpoint_});
    return mistake(args);
  }

  test::TempDir dir_;
  std::string checkpoint_;
};

TEST_F(GenerateCommand, PrintsIdsOrText) {
  const auto ids = output({"--tokens", "1,2,3", "--greedy", "--max-tokens", "5"});
  EXPECT_EQ(ids.rfind("1,2,3,", 0), 0u) << ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ','), 7);
  EXPECT_EQ(ids.back(), '\n');
  EXPECT_EQ(output({"--tokens=1,2,3", "--top-k=1", "--max-tokens=5", "--seed=9"}), ids);
  EXPECT_EQ(output({"--tokens=1,2,3", "--max-tokens=5"}),
            output({"--tokens=1,2,3", "--max-tokens=5", "--threads=1"}));
}

TEST_F(GenerateCommand, ContinuesATextWhereTheCheckpointNamesTheBytes) {
  Config config;
  config.model = models()[0];
  config.model.vocab = 300;  // more than the tokenizer has: such ids print nothing
  Path saved;
  run_world({.ranks = 1, .transport = TransportName::thread}, [&](RankContext& context) {
    Engine engine({.model = config.model, .mesh = {}}, context.transport, context.slots);
    engine.initialize({.seed = 5});
    PosixFileSystem fs;
    const RunState state{.config = to_text(config), .tokenizer_hash = ByteTokenizer().hash()};
    saved =
        save(fs, dir_.path() / "run" / "checkpoints", state, state_tensors(engine), context.transport.world())
            .dir;
    return 0;
  });
  checkpoint_ = (dir_.path() / "run").string();
  const auto text = output({"--prompt", "Once", "--max-tokens", "20"});
  EXPECT_EQ(text.rfind("Once", 0), 0u);
  EXPECT_GT(text.size(), 10u);
  EXPECT_EQ(output({"--prompt", "Once", "--max-tokens", "20", "--tokenizer", "byte"}), text);
  EXPECT_EQ(output({"--prompt", "Once", "--max-tokens", "0"}), "Once\n");
  EXPECT_NE(mistake_here({"--prompt", ""}).find("the prompt is empty"), std::string::npos);
}

TEST_F(GenerateCommand, MistakesAreNamed) {
  EXPECT_NE(mistake({}).find("--checkpoint"), std::string::npos);
  EXPECT_NE(mistake({"--checkpoint", (dir_.path() / "absent").string(), "--tokens", "1"}).find("absent"),
            std::string::npos);
  EXPECT_NE(mistake_here({"--prompt", "a"}).find("names no tokenizer"), std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", "1,100000"}).find("token 100000 is outside the model's vocabulary of"),
            std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", "1,-2"}).find("token -2 is outside"), std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", "1,x"}).find("a list like 1,2,3"), std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", ""}).find("at least one token"), std::string::npos);
  EXPECT_NE(mistake_here({}).find("--prompt TEXT"), std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", "1", "--prompt", "a"}).find("one of --prompt"), std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", "1", "--temperature", "0"}).find("--greedy"), std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", "1", "--top-p", "1.5"}).find("at most 1"), std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", "1", "--top-k", "0"}).find("at least 1"), std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", "1", "--greedy", "--top-k", "3"}).find("leave out --top-k"),
            std::string::npos);
  EXPECT_NE(mistake_here({"--tokens", "1", "--tokenizer", "bite"}).find("nearest known one is 'byte'"),
            std::string::npos);
  EXPECT_NE(mistake_here({"--token", "1"}).find("nearest is '--tokens'"), std::string::npos);
}

}  // namespace
}  // namespace fivefold
