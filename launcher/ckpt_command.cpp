// Words, options and printing; the work is in checkpoint/.
#include "launcher/ckpt_command.h"

#include <array>
#include <cstdio>

#include "checkpoint/build.h"
#include "checkpoint/diff.h"
#include "checkpoint/hash.h"
#include "checkpoint/steps.h"
#include "checkpoint/verify.h"
#include "core/nearest.h"
#include "launcher/arguments.h"

namespace fivefold {

namespace {

using Options = std::vector<ArgumentSpec>;

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }
void warn(const std::string& text) { std::fprintf(stderr, "warning: %s\n", text.c_str()); }

// 517 B, 3.2 KiB, 1.5 GiB.
std::string size_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string sizes_text(std::int64_t stored, std::int64_t raw) {
  return str(size_text(stored), " stored, ", size_text(raw), " raw");
}

const std::string& only_word(const Arguments& args, const char* usage) {
  if (args.words().size() != 1) throw UserError(str("usage: ", usage));
  return args.words().front();
}

int list(const Arguments& args) {
  PosixFileSystem fs;
  const Path path = only_word(args, "fivefold ckpt list PATH");
  if (fs.kind(path) != PathKind::directory) throw UserError(str("there is no folder ", path.string()));
  const auto steps = list_steps(fs, checkpoints_root(fs, path));
  const auto complete = newest_first(steps);
  for (const auto& info : steps) {
    const bool newest = !complete.empty() && info.dir == complete.front().dir;
    print(info.complete()
              ? str(info.dir.filename().string(), "  ", sizes_text(info.stored_bytes, info.raw_bytes),
                    "  complete", newest ? ", newest" : "", "\n")
              : str(info.dir.filename().string(), "  broken: ", info.problem, "\n"));
  }
  if (steps.empty()) print("no checkpoints\n");
  return 0;
}

std::string tensor_line(const StoredTensor& tensor) {
  std::int64_t stored = 0;
  for (const auto& piece : tensor.pieces) stored += piece.encoded.stored_bytes;
  return str("  ", tensor.name, "  ", tensor.dtype, " ", tensor.shape, "  ", tensor.pieces.size(),
             tensor.pieces.size() == 1 ? " piece  " : " pieces  ",
             sizes_text(stored, tensor.shape.count() * size_of(tensor.dtype)), "\n");
}

int show(const Arguments& args) {
  PosixFileSystem fs;
  const Path dir =
      resolve_checkpoint(fs, only_word(args, "fivefold ckpt show PATH [--tensors] [--config]"), warn);
  const Manifest manifest = read_manifest(fs, dir);
  const auto& state = manifest.state;
  print(str("checkpoint  ", dir.string(), "\nhash        ",
            hash_hex(manifest_hash(read_manifest_text(fs, dir))), "\nstep        ", state.step,
            "\nsamples     ", state.samples, "\nseed        ", state.seed, "\ngeneration  ",
            manifest.generation, "\ndata        ", state.data_hash, "\ntokenizer   ", state.tokenizer_hash,
            "\n"));
  for (const auto& [key, value] : state.extra) print(str("  ", key, " = ", value, "\n"));
  print(str("files       ", manifest.files.size(), ", ",
            sizes_text(manifest.stored_bytes(), manifest.raw_bytes()), "\ntensors     ",
            manifest.tensors.size(), "\n"));
  if (args.has("--tensors"))
    for (const auto& tensor : manifest.tensors) print(tensor_line(tensor));
  if (args.has("--config")) print("configuration\n" + state.config);
  return 0;
}

// The checkpoints that the words mean: a folder of steps stands for all of them.
std::vector<Path> all_checkpoints(FileSystem& fs, const std::vector<std::string>& words) {
  std::vector<Path> dirs;
  for (const auto& word : words) {
    const Path path = word;
    if (fs.kind(path) != PathKind::directory) throw UserError(str("there is no folder ", word));
    const auto steps = list_steps(fs, checkpoints_root(fs, path));
    for (const auto& info : steps) dirs.push_back(info.dir);
    if (steps.empty()) dirs.push_back(path);
  }
  return dirs;
}

int verify(const Arguments& args) {
  PosixFileSystem fs;
  if (args.words().empty()) throw UserError("usage: fivefold ckpt verify PATH...");
  int damaged = 0;
  for (const auto& dir : all_checkpoints(fs, args.words())) {
    const auto problems = verify_checkpoint(fs, dir);
    print(str(dir.string(), problems.empty() ? ": whole\n" : ": damaged\n"));
    for (const auto& problem : problems) print(str("  ", problem, "\n"));
    damaged += !problems.empty();
  }
  return damaged > 0 ? 1 : 0;
}

std::string diff_line(const TensorDiff& diff) {
  if (!diff.form.empty()) return str("  ", diff.name, ": ", diff.form, "\n");
  return str("  ", diff.name, ": largest difference ", diff.max_abs, ", ", diff.differing,
             " elements, the first at index ", diff.first, "\n");
}

int diff(const Arguments& args) {
  PosixFileSystem fs;
  if (args.words().size() != 2) throw UserError("usage: fivefold ckpt diff FIRST SECOND");
  const auto result = diff_checkpoints(fs, resolve_checkpoint(fs, args.words()[0], warn),
                                       resolve_checkpoint(fs, args.words()[1], warn));
  for (const auto& note : result.state) print(str("note: ", note, "\n"));
  for (const auto& name : result.only_in_first) print(str("  ", name, ": only in the first\n"));
  for (const auto& name : result.only_in_second) print(str("  ", name, ": only in the second\n"));
  for (const auto& tensor : result.tensors) print(diff_line(tensor));
  print(result.equal()
            ? str("equal: ", result.compared, " tensors, bit for bit\n")
            : str("different: ", result.tensors.size(), " of ", result.compared, " common tensors, ",
                  result.only_in_first.size() + result.only_in_second.size(), " without a counterpart\n"));
  return result.equal() ? 0 : 1;
}

int reshard(const Arguments& args) {
  PosixFileSystem fs;
  if (args.words().size() != 2)
    throw UserError("usage: fivefold ckpt reshard SOURCE TARGET [--pieces N] [--compress HOW]");
  const SaveOptions options{.compression = compression_from(args.text("--compress", "fast"))};
  const auto files = static_cast<int>(args.integer("--pieces", 1, 1));
  const auto saved =
      fivefold::reshard(fs, resolve_checkpoint(fs, args.words()[0], warn), args.words()[1], files, options);
  print(str("wrote ", saved.dir.string(), ": ", sizes_text(saved.stored_bytes, saved.raw_bytes), "\n"));
  return 0;
}

int prune(const Arguments& args) {
  PosixFileSystem fs;
  const Path path = only_word(args, "fivefold ckpt prune PATH --keep N");
  if (fs.kind(path) != PathKind::directory) throw UserError(str("there is no folder ", path.string()));
  const auto removed = prune_steps(fs, checkpoints_root(fs, path), args.integer("--keep", 1), {});
  for (const auto& dir : removed) print(str("removed ", dir.string(), "\n"));
  if (removed.empty()) print("nothing to remove\n");
  return 0;
}

struct Verb {
  std::string name, usage;
  Options options;
  int (*run)(const Arguments&);
};

std::vector<Verb> verbs() {
  return {{"list", "list PATH               the checkpoints of a run", {}, list},
          {"show",
           "show PATH               what a checkpoint holds; the newest one of a run",
           {{"--tensors", "", "name, dtype, shape and size of every tensor"},
            {"--config", "", "the configuration it was trained with"}},
           show},
          {"verify",
           "verify PATH...          read and hash everything; exit 1 if anything is damaged",
           {},
           verify},
          {"diff", "diff FIRST SECOND       compare tensor by tensor; exit 1 if any bit differs", {}, diff},
          {"reshard",
           "reshard SOURCE TARGET   write again in another number of files",
           {{"--pieces", "N", "files (default 1)"}, {"--compress", "HOW", "none, fast (default) or small"}},
           reshard},
          {"prune",
           "prune PATH --keep N     delete all but the N newest complete checkpoints",
           {{"--keep", "N", "at least 1"}},
           prune}};
}

void print_usage() {
  print("PATH is a run, its folder of checkpoints, or one checkpoint.\n");
  for (const auto& verb : verbs()) print(str("fivefold ckpt ", verb.usage, "\n", help_text(verb.options)));
}

}  // namespace

int ckpt_command(std::span<const std::string> args) {
  std::vector<std::string> names;
  for (const auto& verb : verbs()) names.push_back(verb.name);
  if (args.empty())
    throw UserError(
        "ckpt needs a command: list, show, verify, diff, reshard or prune (--help shows their options)");
  if (args.front() == "--help") {
    print_usage();
    return 0;
  }
  for (const auto& verb : verbs()) {
    if (verb.name != args.front()) continue;
    const Arguments given(args.subspan(1), verb.options);
    if (!given.has("--help")) return verb.run(given);
    print_usage();
    return 0;
  }
  throw UserError(str("unknown ckpt command '", args.front(), "'; the nearest is '",
                      nearest_name(args.front(), names), "'"));
}

}  // namespace fivefold
