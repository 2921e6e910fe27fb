// Words and options of import and export; the work is in hf_import and hf_export.
#include "launcher/import_command.h"

#include <cstdio>

#include "launcher/arguments.h"
#include "launcher/hf_import.h"

namespace fivefold {

namespace {

const std::vector<ArgumentSpec>& import_options() {
  static const std::vector<ArgumentSpec> specs{{"--out", "CKPT", "checkpoint to write; must not exist"}};
  return specs;
}

const std::vector<ArgumentSpec>& export_options() {
  static const std::vector<ArgumentSpec> specs{
      {"--out", "DIR", "folder to write into; must be new or empty"},
      {"--dtype", "NAME", "f32, bf16 or f64 (default: that of the weights)"}};
  return specs;
}

constexpr const char* kImportUsage =
    "usage: fivefold import hf DIR --out CKPT\n"
    "Turns the weights of a Hugging Face folder (config.json and safetensors) into a checkpoint for run.init "
    "and generate.\n\n";
constexpr const char* kExportUsage =
    "usage: fivefold export hf CKPT --out DIR [--dtype NAME]\n"
    "Turns a checkpoint, or the newest of a run, into config.json and safetensors as transformers reads "
    "them.\n\n";

// The path behind the word "hf". Nothing where help was asked for and printed.
std::optional<std::string> path_of(const Arguments& arguments, const char* usage,
                                   const std::vector<ArgumentSpec>& specs) {
  if (arguments.has("--help")) {
    std::fputs((usage + help_text(specs)).c_str(), stdout);
    return {};
  }
  const auto& words = arguments.words();
  if (words.size() != 2 || words[0] != "hf" || arguments.text("--out").empty()) {
    const std::string text = usage;
    throw UserError(text.substr(0, text.find('\n')));
  }
  return words[1];
}

}  // namespace

int import_command(std::span<const std::string> args) {
  const Arguments arguments(args, import_options());
  const auto path = path_of(arguments, kImportUsage, import_options());
  if (!path) return 0;
  PosixFileSystem fs;
  const auto report = import_hf(fs, *path, arguments.text("--out"));
  std::fputs(str("imported ", report.tensors, " tensors, ", parameter_count(report.model), " parameters (",
                 report.model.family, ") into ", report.saved.dir.string(), "\n")
                 .c_str(),
             stdout);
  return 0;
}

int export_command(std::span<const std::string> args) {
  const Arguments arguments(args, export_options());
  const auto path = path_of(arguments, kExportUsage, export_options());
  if (!path) return 0;
  std::optional<DType> dtype;
  if (arguments.has("--dtype")) dtype = dtype_from(arguments.choice("--dtype", {"f32", "bf16", "f64"}));
  PosixFileSystem fs;
  const auto report = export_hf(fs, *path, arguments.text("--out"), dtype);
  std::fputs(str("exported ", parameter_count(report.model), " parameters (", report.model.family, ", ",
                 report.dtype, ") into ", arguments.text("--out"), ": ", report.files.size(), " files\n")
                 .c_str(),
             stdout);
  return 0;
}

}  // namespace fivefold
