// Import: rows of each parameter in pieces through HfWeights into a CheckpointBuilder.
#include "launcher/hf_import.h"

#include "checkpoint/build.h"
#include "launcher/hf_folder.h"
#include "launcher/hf_weights.h"
#include "launcher/options.h"
#include "model/parameters.h"

namespace fivefold {

namespace {

void import_parameter(CheckpointBuilder& builder, const HfWeights& weights, const ParamInfo& param,
                      Memory& memory) {
  const auto dtype = weights.natural_dtype(param.name);
  const auto row_bytes = param.shape.row_count() * size_of(dtype);
  const auto rows = std::max<std::int64_t>(1, kPieceBytes / row_bytes);
  CpuStream host;
  for (std::int64_t begin = 0; begin < param.shape[0]; begin += rows) {
    Box box = whole(param.shape);
    box.begin[0] = begin;
    box.end[0] = std::min(begin + rows, param.shape[0]);
    const auto part = empty(memory, box.shape(), dtype, Tag::staging, host);
    weights.read(param.name, box, part);
    builder.add("model/" + param.name, dtype, param.shape, box,
                {part.raw(), static_cast<std::size_t>(part.bytes())});
  }
}

}  // namespace

ImportReport import_hf(FileSystem& fs, const Path& dir, const Path& out) {
  if (fs.kind(out) != PathKind::none)
    throw UserError(str("'", out.string(), "' exists already; name a new checkpoint"));
  Config config;
  config.model = read_hf_config(dir.string());
  check(config.model);
  const HfWeights weights(fs, dir, config.model);
  const auto memory = make_cpu_memory();
  CheckpointBuilder builder(fs, std::filesystem::absolute(out),
                            {.seed = config.run.seed, .config = to_text(config)});
  ImportReport report{.model = config.model};
  for (const auto& param : parameter_list(config.model)) {
    import_parameter(builder, weights, param, *memory);
    ++report.tensors;
  }
  report.saved = builder.finish();
  return report;
}

}  // namespace fivefold
