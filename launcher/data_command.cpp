#include "launcher/data_command.h"

#include <array>
#include <chrono>
#include <cstdio>

#include "core/error.h"
#include "core/nearest.h"
#include "data/bigram.h"
#include "data/build.h"
#include "data/token_file.h"
#include "data/tokenizer.h"
#include "data/trace.h"
#include "launcher/arguments.h"

namespace fivefold {
namespace {

const std::vector<ArgumentSpec> kBuildOptions = {
    {"--out", "FILE", "the token file to write"},
    {"--tokenizer", "NAME", "byte (default)"},
    {"--separator", "TEXT", "splits .txt files into documents; \\n \\t \\r \\\\ are understood"},
    {"--valid-out", "FILE", "a second token file for held-out text"},
    {"--valid-fraction", "F", "its share, between 0 and 1"},
    {"--hold-out", "HOW",
     "documents (by a keyed hash), tail (each file's end), auto (tail for one plain .txt)"},
    {"--split-seed", "N", "key of the choice of documents (default 0)"},
};
const std::vector<ArgumentSpec> kInfoOptions = {
    {"--check", "", "read everything: ids, document bounds, stored hash"},
    {"--bigram", "", "entropy of a table of which token follows which: a loss to beat"},
};
const std::vector<ArgumentSpec> kTraceOptions = {
    {"--data", "LIST", "token files as in data.train: 'PATH, ...' or 'PATH*WEIGHT, ...'"},
    {"--sequence", "S", "tokens a sample"},
    {"--seed", "N", "run.seed (default 0)"},
    {"--global-batch", "B", "samples a step"},
    {"--step", "N", "from 1: the N-th step of the run"},
    {"--documents", "HOW", "mask (default) or join"},
    {"--order", "HOW", "shuffle (default) or sequential"},
};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_usage() {
  print(
      str("fivefold data build --out FILE [options] INPUT...   text (.txt, .jsonl) into a token file\n",
          help_text(kBuildOptions),
          "fivefold data info FILE [options]                   what a token file holds\n",
          help_text(kInfoOptions),
          "fivefold data trace --data LIST --sequence S --global-batch B --step N [options]\n",
          "                                                    the documents behind each sample of a step\n",
          help_text(kTraceOptions)));
}

// Backslash escapes of a separator given on the command line.
std::string unescaped(const std::string& text) {
  constexpr std::string_view kFrom = "ntr\\", kTo = "\n\t\r\\";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto known = text[i] == '\\' && i + 1 < text.size() ? kFrom.find(text[i + 1]) : kFrom.npos;
    out += known == kFrom.npos ? text[i] : kTo[known];
    if (known != kFrom.npos) ++i;
  }
  return out;
}

BuildOptions build_options(const Arguments& args) {
  BuildOptions options;
  options.inputs = args.words();
  options.out = args.text("--out");
  options.tokenizer = args.text("--tokenizer", "byte");
  options.separator = unescaped(args.text("--separator"));
  options.valid_out = args.text("--valid-out");
  options.valid_fraction = args.number("--valid-fraction", 0.0);
  options.split_seed = static_cast<std::uint64_t>(args.integer("--split-seed", 0, 0));
  const auto how = args.choice("--hold-out", {"auto", "documents", "tail"});
  options.hold_out = how == "tail"        ? HoldOut::tail
                     : how == "documents" ? HoldOut::documents
                                          : HoldOut::automatic;
  return options;
}

std::string built_line(const BuiltFile& built) {
  return str(built.path, ": ", built.tokens, " tokens in ", built.documents, " documents, hash ",
             open_token_file(built.path)->hash(), '\n');
}

void build(const Arguments& args) {
  const auto begin = std::chrono::steady_clock::now();
  const auto report = build_tokens(build_options(args));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  print(built_line(report.train));
  if (!report.valid.path.empty()) print(built_line(report.valid));
  if (report.empty_documents > 0) print(str(report.empty_documents, " empty documents were skipped\n"));
  const auto bytes = static_cast<double>(report.bytes_read);
  print(str("read ", report.bytes_read, " bytes in ", seconds, " s, ", bytes / seconds / 1e6, " MB/s\n"));
}

// The first line's worth of text, control characters shown as spaces.
std::string first_text(const TokenFile& file) {
  if (file.info().tokenizer != "byte") return "";
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min<std::int64_t>(file.tokens(), 72)));
  file.read(0, ids, 0);
  auto text = make_tokenizer("byte")->decode(ids);
  for (auto& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  return str("begins     ", text, '\n');
}

void info(const Arguments& args) {
  if (args.words().size() != 1)
    throw UserError(str("data info takes one token file, not ", args.words().size()));
  const auto file = open_token_file(args.words().front());
  const auto& facts = file->info();
  const auto known = [](const std::string& text) { return text.empty() ? "not recorded" : text; };
  print(str("file       ", facts.path, "\nformat     ", facts.format, ", ", facts.token_bytes,
            " bytes a token\ntokens     ", facts.tokens, "\ndocuments  ", file->documents(), "\nvocabulary ",
            facts.vocab > 0 ? std::to_string(facts.vocab) : "not recorded", "\ntokenizer  ",
            known(facts.tokenizer), ", hash ", known(facts.tokenizer_hash), "\nhash       ", file->hash(),
            '\n', first_text(*file)));
  if (args.has("--bigram")) print(str("bigram     ", bigram_entropy(*file), " nats a token\n"));
  if (!args.has("--check")) return;
  file->check();
  print("check      every id, document bound and stored hash is right\n");
}

void trace(const Arguments& args) {
  if (!args.words().empty())
    throw UserError(str("data trace takes options only, not '", args.words().front(), "'"));
  SamplerOptions options;
  options.sequence = args.integer("--sequence", 1);
  options.seed = static_cast<std::uint64_t>(args.integer("--seed", 0, 0));
  if (args.choice("--documents", {"mask", "join"}) == "join") options.documents = Documents::join;
  if (args.choice("--order", {"shuffle", "sequential"}) == "sequential")
    options.order = SampleOrder::sequential;
  const auto batch = args.integer("--global-batch", 1), step = args.integer("--step", 1);
  const Sampler sampler(open_data_set(parse_sources(args.text("--data"))), options);
  print(trace_text(sampler, (step - 1) * batch, batch));
}

struct Command {
  std::string name;
  const std::vector<ArgumentSpec>& options;
  void (*run)(const Arguments&);
};

}  // namespace

int data_command(std::span<const std::string> args) {
  const std::array<Command, 3> commands = {
      {{"build", kBuildOptions, build}, {"info", kInfoOptions, info}, {"trace", kTraceOptions, trace}}};
  const std::array<std::string, 3> names = {"build", "info", "trace"};
  if (args.empty())
    throw UserError("data needs a command: build, info or trace (--help shows their options)");
  if (args.front() == "--help") {
    print_usage();
    return 0;
  }
  for (const auto& command : commands) {
    if (command.name != args.front()) continue;
    const Arguments given(args.subspan(1), command.options);
    given.has("--help") ? print_usage() : command.run(given);
    return 0;
  }
  throw UserError(str("unknown data command '", args.front(), "'; the nearest is '",
                      nearest_name(args.front(), names), "'"));
}

}  // namespace fivefold
