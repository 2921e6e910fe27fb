// Options -> checkpoint -> prompt -> engine -> tokens on standard output.
#include "launcher/generate_command.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "checkpoint/load.h"
#include "checkpoint/steps.h"
#include "data/tokenizer.h"
#include "launcher/affinity.h"
#include "launcher/arguments.h"
#include "launcher/generate.h"
#include "launcher/model_state.h"
#include "launcher/options.h"
#include "launcher/rank_device.h"
#include "launcher/supported.h"
#include "launcher/values.h"
#include "launcher/world.h"

namespace fivefold {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "usage: fivefold generate --checkpoint PATH (--prompt TEXT | --tokens 1,2,3) [options]\n"
    "Prints the prompt and what the model appends to it, until the document ends or --max-tokens are "
    "there.\n\n";

const std::vector<ArgumentSpec>& specs() {
  static const std::vector<ArgumentSpec> table{
      {"--checkpoint", "PATH", "a checkpoint, or a run's folder: its newest"},
      {"--prompt", "TEXT", "text to go on from; needs the model's tokenizer"},
      {"--tokens", "IDS", "token ids to go on from, 1,2,3; ids are printed"},
      {"--tokenizer", "NAME", "where the checkpoint names none: byte"},
      {"--max-tokens", "N", "tokens to append at most (default 256)"},
      {"--temperature", "T", "divides the logits (default 1)"},
      {"--top-k", "K", "samples among the K likeliest tokens only"},
      {"--top-p", "P", "then among the fewest that have probability P together"},
      {"--seed", "S", "another seed, another text (default 1)"},
      {"--greedy", "", "always the likeliest token"},
      {"--device", "NAME", "auto, cpu or cuda (default auto: a CUDA device where there is one)"},
      {"--threads", "N", "CPU threads (default: the usable cores)"}};
  return table;
}

SamplingOptions sampling_options(const Arguments& a) {
  SamplingOptions out{.greedy = a.has("--greedy"),
                      .temperature = a.number("--temperature", 1),
                      .top_k = a.integer("--top-k", 1, 0),
                      .top_p = a.number("--top-p", 1)};
  for (const char* other : {"--temperature", "--top-k", "--top-p"})
    if (out.greedy && a.has(other))
      throw UserError(str("--greedy always takes the likeliest token: leave out ", other));
  if (!(out.temperature > 0))
    throw UserError(str("--temperature is above 0, not ", out.temperature, "; the limit at 0 is --greedy"));
  if (!(out.top_p > 0 && out.top_p <= 1))
    throw UserError(str("--top-p is above 0 and at most 1, not ", out.top_p));
  return out;
}

// A checkpoint's directory, what it says of itself, and the shape of its model.
struct Source {
  Path dir;
  RunState state;
  Config config;
};

Source open_source(FileSystem& fs, const std::string& path) {
  if (path.empty()) throw UserError("generate needs a model: --checkpoint PATH");
  Source out{.dir = resolve_checkpoint(
                 fs, path, [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }),
             .state = {},
             .config = {}};
  out.state = read_manifest(fs, out.dir).state;
  out.config =
      resolve(parse_config_text(out.state.config, str("the configuration in ", out.dir.string()))).config;
  check(out.config.model);
  Config shape;
  shape.model = out.config.model;
  check_supported(shape);
  return out;
}

// The one named on the command line, in the configuration, or by the checkpoint's hash; null if none is
// known.
std::unique_ptr<Tokenizer> tokenizer_of(const Source& source, const std::string& given) {
  const auto& name = given.empty() ? source.config.data.tokenizer : given;
  if (name.empty() && source.state.tokenizer_hash.empty()) return nullptr;
  auto tokenizer = make_tokenizer(name.empty() ? "byte" : name);
  const auto& hash = source.state.tokenizer_hash;
  if (hash.empty() || hash == tokenizer->hash()) return tokenizer;
  if (!given.empty())
    throw UserError(str("tokenizer ", given, " has hash ", tokenizer->hash(),
                        ", but the model was trained with one of hash ", hash));
  return nullptr;
}

std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::vector<std::int32_t> out;
  const char *p = text.data(), *end = p + text.size();
  while (p < end) {
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(p, end, id);
    if (error != std::errc() || (next != end && *next != ','))
      throw UserError(str("--tokens is a list like 1,2,3, not '", text, "'"));
    out.push_back(id);
    p = next == end ? end : next + 1;
  }
  return out;
}

std::vector<std::int32_t> prompt_of(const Arguments& a, const Source& source, const Tokenizer* tokenizer) {
  if (a.has("--prompt") == a.has("--tokens"))
    throw UserError("generate goes on from one of --prompt TEXT and --tokens 1,2,3");
  if (a.has("--prompt") && !tokenizer)
    throw UserError(str(source.dir.string(),
                        " names no tokenizer that this program has, so --prompt has no ids: give them with "
                        "--tokens 1,2,3, or name one with --tokenizer byte"));
  auto ids = a.has("--prompt") ? tokenizer->encode(a.text("--prompt")) : parse_ids(a.text("--tokens"));
  if (ids.empty()) throw UserError("generate goes on from at least one token: the prompt is empty");
  const auto vocab = source.config.model.vocab;
  for (const auto id : ids)
    if (id < 0 || id >= vocab)
      throw UserError(
          str("token ", id, " is outside the model's vocabulary of ", vocab, ": ids are 0 to ", vocab - 1));
  return ids;
}

TrainConfig device_wanted(const Arguments& a) {
  const auto text = a.text("--device");
  const auto codec = choice<DeviceChoice>();
  const auto parsed = codec.parse(text.empty() ? "auto" : text);
  if (!parsed) throw UserError(str("--device is ", list_of(codec.allowed), ", not '", text, "'"));
  return {.device = *parsed};
}

EngineOptions engine_for(const Source& source, Device device, int threads) {
  return {.model = source.config.model,
          .mesh = {},
          .dtype = DType::f32,
          .device = device,
          .threads = threads,
          .stage = {.zero = {.trains = false}}};
}

void load_model(FileSystem& fs, const Source& source, Engine& engine) {
  const auto wanted = master_tensors(engine);
  load(fs, source.dir, wanted, engine.mesh().world(), {.prefixes = {"model/"}, .convert = true});
  masters_changed(engine);
}

// Standard output, token by token.
class Printer {
 public:
  explicit Printer(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}  // null: ids
  void operator()(std::int32_t id) {
    const auto text = tokenizer_ ? tokenizer_->decode(std::span(&id, 1)) : str(first_ ? "" : ",", id);
    first_ = false;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

 private:
  const Tokenizer* tokenizer_;
  bool first_ = true;
};

int run_generate(const Arguments& a) {
  PosixFileSystem fs;
  GenerateOptions options{.max_tokens = a.integer("--max-tokens", 0, 256),
                          .sampling = sampling_options(a),
                          .seed = static_cast<std::uint64_t>(a.integer("--seed", 0, 1)),
                          .stop = {}};
  const auto source = open_source(fs, a.text("--checkpoint"));
  const auto tokenizer = tokenizer_of(source, a.text("--tokenizer"));
  const auto prompt = prompt_of(a, source, tokenizer.get());
  if (tokenizer) options.stop = tokenizer->end_of_document();
  const auto threads = static_cast<int>(a.integer("--threads", 1, usable_cores()));
  const auto wanted = device_wanted(a);
  return run_world({.ranks = 1, .transport = TransportName::thread}, [&](RankContext& context) {
    Engine engine(engine_for(source, rank_device(wanted, context), threads), context.transport,
                  context.slots);
    load_model(fs, source, engine);
    TokenDecoder decoder(engine);
    Printer print(a.has("--prompt") ? tokenizer.get() : nullptr);
    for (const auto id : prompt) print(id);
    const auto start = Clock::now();
    const auto tokens = generate(decoder, prompt, options, std::ref(print));
    const std::chrono::duration<double> took = Clock::now() - start;
    std::fputs("\n", stdout);
    const auto count = tokens.size() - prompt.size();
    std::fprintf(stderr, "%zu tokens in %.2f s, %.1f tokens/s\n", count, took.count(),
                 static_cast<double>(count) / took.count());
    return 0;
  });
}

}  // namespace

int generate_command(std::span<const std::string> args) {
  const Arguments arguments(args, specs());
  if (arguments.has("--help")) {
    std::fputs((kUsage + help_text(specs())).c_str(), stdout);
    return 0;
  }
  if (!arguments.words().empty())
    throw UserError(str("unexpected argument '", arguments.words()[0], "': generate takes options only"));
  return run_generate(arguments);
}

}  // namespace fivefold
