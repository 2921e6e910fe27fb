// Export: each tensor of theirs is put together from the rows of ours that it is made of.
#include <algorithm>

#include "checkpoint/convert.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/steps.h"
#include "core/json.h"
#include "launcher/hf_import.h"
#include "launcher/options.h"
#include "model/hf_config.h"
#include "model/hf_map.h"

namespace fivefold {

namespace {

// Refuses a model of which the family's config.json would lose a part.
void check_expressible(const ModelConfig& model, const Json& written) {
  Config before, after;
  before.model = model;
  after.model = config_from_hf(written);
  std::string lost;
  for (const auto& change : changes(before, after))
    lost += str(lost.empty() ? "" : ", ", change.name, " = ", change.before, " (would become ", change.after,
                ")");
  if (!lost.empty())
    throw UserError(str("files of family ", model.family, " cannot express ", lost,
                        "; export needs a model.family that can"));
}

const StoredTensor* weights_of(const Manifest& manifest, const std::string& ours, DType wanted) {
  const auto* model = manifest.find("model/" + ours);
  const auto* master = manifest.find("master/" + ours);
  if (model == nullptr) throw UserError(str("the checkpoint has no tensor model/", ours));
  return master != nullptr && model->dtype != wanted ? master : model;
}

// Element (row, column) of a piece is at `first + row * row_step + column * column_step` of their tensor.
struct Place {
  std::int64_t first, row_step, column_step;
};

Place place_of(const HfPiece& piece) {
  const auto& shape = piece.their_shape;
  if (piece.transposed) return {piece.their_row, 1, shape[1]};
  const auto width = shape.rank() == 1 ? 1 : shape[shape.rank() - 1];
  return {piece.their_row * width, width, 1};
}

class Exporter {
 public:
  Exporter(FileSystem& fs, const Path& dir, const ModelConfig& model, DType dtype)
      : manifest_(read_manifest(fs, dir)), reader_(fs, dir), dtype_(dtype) {
    for (auto& piece : hf_map(model)) {
      auto& pieces = pieces_[piece.theirs];
      if (pieces.empty()) specs_.push_back({piece.theirs, dtype, piece.their_shape});
      pieces.push_back(std::move(piece));
    }
  }
  const std::vector<SafetensorSpec>& specs() const { return specs_; }

  void write(const SafetensorSpec& spec, const ByteSink& sink) {
    std::vector<std::byte> whole_tensor(static_cast<std::size_t>(spec.shape.count() * size_of(dtype_)));
    for (const auto& piece : pieces_.at(spec.name)) add(piece, whole_tensor);
    sink(whole_tensor);
  }

 private:
  void add(const HfPiece& piece, std::vector<std::byte>& out) {
    const auto& stored = *weights_of(manifest_, piece.ours, dtype_);
    Box box = whole(stored.shape);
    box.begin[0] = piece.our_row;
    box.end[0] = piece.our_row + piece.rows;
    std::vector<std::byte> raw(static_cast<std::size_t>(box.count() * size_of(stored.dtype)));
    read_box(reader_, stored, box, raw);
    std::vector<std::byte> converted(static_cast<std::size_t>(box.count() * size_of(dtype_)));
    convert_elements(stored.dtype, raw.data(), dtype_, converted.data(), box.count());
    scatter(converted, piece, box.count() / piece.rows, out);
  }

  void scatter(const std::vector<std::byte>& from, const HfPiece& piece, std::int64_t columns,
               std::vector<std::byte>& out) {
    const auto place = place_of(piece);
    with_float(dtype_, [&]<class T>(T) {
      const auto* source = reinterpret_cast<const T*>(from.data());
      auto* target = reinterpret_cast<T*>(out.data()) + place.first;
      for (std::int64_t r = 0; r < piece.rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
          target[r * place.row_step + c * place.column_step] = *source++;
    });
  }

  Manifest manifest_;
  PieceReader reader_;
  DType dtype_;
  std::map<std::string, std::vector<HfPiece>> pieces_;  // by their name
  std::vector<SafetensorSpec> specs_;
};

void make_empty_folder(FileSystem& fs, const Path& out) {
  if (fs.kind(out) == PathKind::file || (fs.kind(out) == PathKind::directory && !fs.list(out).empty()))
    throw UserError(str("'", out.string(), "' holds files already; name a new folder"));
  make_dirs_durably(fs, std::filesystem::absolute(out));
}

}  // namespace

ExportReport export_hf(FileSystem& fs, const Path& checkpoint, const Path& out, std::optional<DType> dtype) {
  const auto dir = resolve_checkpoint(fs, checkpoint, [](const std::string&) {});
  const auto manifest = read_manifest(fs, dir);
  const auto model =
      resolve(parse_config_text(manifest.state.config, "the checkpoint's configuration")).config.model;
  const auto* embedding = manifest.find("model/embed.weight");
  if (embedding == nullptr)
    throw UserError(str("'", dir.string(), "' holds no weights (model/embed.weight is missing)"));
  ExportReport report{.model = model, .dtype = dtype.value_or(embedding->dtype), .files = {}};
  const auto config = config_to_hf(model, report.dtype);
  check_expressible(model, config);
  Exporter exporter(fs, dir, model, report.dtype);
  make_empty_folder(fs, out);
  report.files = write_safetensors(
      fs, out, exporter.specs(),
      [&](const SafetensorSpec& spec, const ByteSink& sink) { exporter.write(spec, sink); });
  write_text_durably(fs, out / "config.json", config.dump(2) + "\n");
  report.files.push_back("config.json");
  return report;
}

}  // namespace fivefold
