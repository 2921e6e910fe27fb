// Reads reference.json and the small tensors of reference.safetensors.
#include "launcher/reference.h"

#include <fstream>

#include "core/json.h"
#include "core/transfer.h"
#include "launcher/hf_folder.h"

namespace fivefold {

namespace {

Json read_json(FileSystem& fs, const std::filesystem::path& path) {
  if (fs.kind(path) != PathKind::file)
    throw UserError(
        str("a reference folder holds ", path.filename().string(), ": ", path.string(), " is missing"));
  const auto json = Json::parse(read_text(fs, path), nullptr, false);
  if (json.is_discarded()) throw UserError(str(path.string(), " is no JSON"));
  return json;
}

// A whole tensor as doubles, and its shape.
std::pair<std::vector<double>, Shape> read_whole(const SafetensorsReader& reader, const std::string& name) {
  const auto& info = reader.at(name);
  const auto dtype = SafetensorsReader::natural_dtype(info);
  CpuStream host;
  const auto t = fivefold::empty(*make_cpu_memory(), info.shape, dtype, Tag::staging, host);
  reader.read(name, whole(info.shape), t);
  return {to_host(t, host), info.shape};
}

void read_hyper(Reference& r, const Json& hyper) {
  r.lr = hyper.at("lr");
  r.optimizer = {.beta1 = hyper.at("beta1"),
                 .beta2 = hyper.at("beta2"),
                 .eps = hyper.at("eps"),
                 .weight_decay = hyper.at("weight_decay"),
                 .clip = hyper.at("clip")};
}

void append_row(MicroBatch& b, const Reference& r, const std::int32_t* ids, std::int64_t j) {
  const auto begin = static_cast<std::int32_t>(b.rows() - j);
  const bool last = j + 1 == r.sequence;
  b.tokens.push_back(ids[j]);
  b.targets.push_back(last ? kNoTarget : ids[j + 1]);
  b.valid_targets += !last;
  b.position.push_back(static_cast<std::int32_t>(j));
  b.q_index.push_back(static_cast<std::int32_t>(begin + j));
  b.first_visible.push_back(begin);
  b.k_index.push_back(static_cast<std::int32_t>(begin + j));
}

}  // namespace

Reference read_reference(FileSystem& fs, const std::filesystem::path& dir) {
  const auto json = read_json(fs, dir / "reference.json");
  const SafetensorsReader reader(fs, dir / "reference.safetensors");
  Reference r{.dir = dir, .model = read_hf_config(dir.string())};
  read_hyper(r, json.at("hyper"));
  const auto [tokens, shape] = read_whole(reader, "tokens");
  r.tokens.assign(tokens.begin(), tokens.end());
  r.steps = shape[0], r.batch = shape[1], r.sequence = shape[2];
  r.logits = read_whole(reader, "logits").first;
  r.loss = json.at("loss").get<std::vector<double>>();
  r.grad_norm = json.at("grad_norm").get<std::vector<double>>();
  return r;
}

MicroBatch reference_batch(const Reference& r, std::int64_t step, std::int64_t first, std::int64_t count,
                           std::int64_t sequences) {
  MicroBatch b;
  b.sequences = sequences, b.sequence = r.sequence, b.index_end = sequences * r.sequence;
  for (std::int64_t s = 0; s < count; ++s)
    for (std::int64_t j = 0; j < r.sequence; ++j)
      append_row(b, r, &r.tokens[static_cast<std::size_t>(((step * r.batch) + first + s) * r.sequence)], j);
  while (b.rows() < b.index_end) append_padding_row(b, static_cast<std::int32_t>(b.rows()));
  return b;
}

}  // namespace fivefold
