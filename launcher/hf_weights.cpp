// Each shard is filled from the pieces of the map that share rows with it.
#include "launcher/hf_weights.h"

#include "checkpoint/safetensors.h"
#include "launcher/hf_folder.h"
#include "model/hf_map.h"

namespace fivefold {

namespace {

// Rows x columns of the part of `want` that a piece covers, in our coordinates.
struct Part {
  std::int64_t row, end_row, column, end_column;
  bool empty() const { return row >= end_row || column >= end_column; }
  std::int64_t rows() const { return end_row - row; }
  std::int64_t columns() const { return end_column - column; }
};

Part part_of(const HfPiece& piece, const Box& want) {
  const bool matrix = want.begin.rank() == 2;
  return {std::max(want.begin[0], piece.our_row), std::min(want.end[0], piece.our_row + piece.rows),
          matrix ? want.begin[1] : 0, matrix ? want.end[1] : 1};
}

// The same elements in their tensor.
Box their_box(const HfPiece& piece, const Part& part) {
  const auto first = part.row - piece.our_row + piece.their_row, end = first + part.rows();
  if (piece.their_shape.rank() == 1) return {{first}, {end}};
  if (piece.transposed) return {{part.column, first}, {part.end_column, end}};
  return {{first, part.column}, {end, part.end_column}};
}

template <class T>
void place(const Tensor& from, bool transposed, const Part& part, const Box& want, const Tensor& out) {
  const auto width = want.begin.rank() == 2 ? want.end[1] - want.begin[1] : 1;
  const T* source = from.data<T>();
  for (std::int64_t r = 0; r < part.rows(); ++r)
    for (std::int64_t c = 0; c < part.columns(); ++c)
      out.data<T>()[(part.row - want.begin[0] + r) * width + c] =
          transposed ? source[c * part.rows() + r] : source[r * part.columns() + c];
}

}  // namespace

HfWeights::HfWeights(FileSystem& fs, const std::filesystem::path& path, const ModelConfig& config,
                     const std::string& prefix, HfExperts experts)
    : reader_(fs, path) {
  for (const auto& tensor : reader_.tensors())
    if (tensor.name.rfind(prefix, 0) == 0)
      theirs_[hf_canonical_name(config, tensor.name.substr(prefix.size()))] = tensor.name;
  for (auto& piece : hf_map(config, experts)) pieces_[piece.ours].push_back(piece);
  refuse_unknown(config);
}

void HfWeights::refuse_unknown(const ModelConfig& config) const {
  auto rest = theirs_;
  for (const auto& [ours, pieces] : pieces_)
    for (const auto& piece : pieces) rest.erase(piece.theirs);
  for (const auto& [canonical, name] : rest)
    if (!hf_is_redundant(config, canonical))
      throw UserError(str("the weights hold '", name, "', which a ", config.family,
                          " model of this shape has no place for"));
}

const SafetensorInfo& HfWeights::stored(const HfPiece& piece) const {
  const auto name = theirs_.find(piece.theirs);
  if (name == theirs_.end())
    throw UserError(str("the weights lack '", piece.theirs, "', which holds ", piece.ours));
  const auto& found = reader_.at(name->second);
  if (found.shape != piece.their_shape)
    throw UserError(
        str("'", found.name, "' has shape ", found.shape, ", config.json asks for ", piece.their_shape));
  return found;
}

DType HfWeights::natural_dtype(const std::string& ours) const {
  const auto& found = stored(pieces_.at(ours).front());
  const auto dtype = SafetensorsReader::natural_dtype(found);
  if (dtype == DType::i32 || dtype == DType::u8)
    throw UserError(str("'", found.name, "' holds whole numbers (", found.dtype, "), weights are floating"));
  return dtype;
}

void HfWeights::read(const std::string& ours, const Box& box, const Tensor& out) const {
  CpuStream host;
  const auto memory = make_cpu_memory();
  for (const auto& piece : pieces_.at(ours)) {
    const auto part = part_of(piece, box);
    if (part.empty()) continue;
    const auto& found = stored(piece);
    const auto from = their_box(piece, part);
    const auto staged = fivefold::empty(*memory, from.shape(), out.dtype(), Tag::staging, host);
    reader_.read(found.name, from, staged);
    with_float(out.dtype(), [&]<class T>(T) { place<T>(staged, piece.transposed, part, box, out); });
  }
}

bool is_hf_folder(const std::filesystem::path& path) { return std::filesystem::exists(path / "config.json"); }

void load_hf_weights(Engine& engine, const std::filesystem::path& dir) {
  PosixFileSystem fs;
  const HfWeights weights(fs, dir, engine.options().model);
  CpuStream host;
  const auto memory = make_cpu_memory();
  for (const auto* p : engine.params()) {
    const auto& box = p->param->storage_box;
    const auto staged = empty(*memory, box.shape(), engine.run().accum(), Tag::staging, host);
    weights.read(p->param->name, box, staged);
    p->write_master(engine.run(), staged);
  }
}

}  // namespace fivefold
