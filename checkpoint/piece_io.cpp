// Encoded boxes, one after another in a file.
#include "checkpoint/piece_io.h"

#include <algorithm>

#include "checkpoint/convert.h"
#include "checkpoint/hash.h"

namespace fivefold {

PieceWriter::PieceWriter(FileSystem& fs, Path dir, std::string file, Compression compression,
                         std::int64_t piece_bytes)
    : fs_(fs),
      dir_(std::move(dir)),
      file_name_(std::move(file)),
      piece_bytes_(piece_bytes),
      encoder_(compression) {}

StoredTensor& PieceWriter::tensor_entry(const std::string& name, DType dtype, const Shape& global) {
  auto& tensors = part_.tensors;
  if (tensors.empty() || tensors.back().name != name) tensors.push_back({name, dtype, global, {}});
  return tensors.back();
}

void PieceWriter::append(std::span<const std::byte> bytes) {
  file_->append(bytes);
  bytes_ += static_cast<std::int64_t>(bytes.size());
}

void PieceWriter::write(const std::string& name, DType dtype, const Shape& global, const Box& box,
                        std::span<const std::byte> raw) {
  FF_CHECK_EQ(static_cast<std::int64_t>(raw.size()), box.count() * size_of(dtype), name, " ", box);
  if (!file_) file_ = fs_.create(dir_ / file_name_);
  auto& pieces = tensor_entry(name, dtype, global).pieces;
  for (const Box& part : split_box(box, std::max<std::int64_t>(1, piece_bytes_ / size_of(dtype)))) {
    const auto bytes = raw.first(static_cast<std::size_t>(part.count() * size_of(dtype)));
    raw = raw.subspan(bytes.size());
    const auto offset = bytes_;
    const Encoded encoded =
        encoder_.encode(dtype, bytes, [&](std::span<const std::byte> stored) { append(stored); });
    pieces.push_back({part, file_name_, offset, encoder_.codec_for(dtype), encoded});
  }
}

Manifest PieceWriter::finish() {
  if (!file_) return {};
  file_->sync();
  file_->close();
  file_.reset();
  part_.files = {{file_name_, bytes_}};
  return std::move(part_);
}

namespace {

std::string place_of(const Path& path, const StoredTensor& tensor, const Piece& piece) {
  return str(path.string(), ": tensor ", tensor.name, ", box ", piece.box, ": ");
}

void compare_hash(const char* what, std::uint64_t expected, std::uint64_t found, const std::string& place) {
  if (expected != found)
    throw CorruptCheckpoint(str(place, "the hash of its ", what, " bytes is ", hash_hex(found), " where ",
                                hash_hex(expected), " is expected"));
}

}  // namespace

void PieceReader::read(const StoredTensor& tensor, const Piece& piece, const ByteSink& sink) {
  const Path path = dir_ / piece.file;
  if (open_name_ != piece.file) {
    open_ = fs_.open(path);
    open_name_ = piece.file;
  }
  const auto place = place_of(path, tensor, piece);
  auto offset = piece.offset;
  const ByteSource source = [&](std::span<std::byte> out) {
    if (const auto missing = offset + static_cast<std::int64_t>(out.size()) - open_->size(); missing > 0)
      throw CodecError(str("the file ends ", missing, " bytes too early"));
    open_->read_at(offset, out);
    offset += static_cast<std::int64_t>(out.size());
  };
  Encoded found;
  try {
    found = decoder_.decode(piece.codec, tensor.dtype, piece.encoded.stored_bytes, piece.encoded.raw_bytes,
                            source, sink);
  } catch (const CodecError& e) {
    throw CorruptCheckpoint(place + e.what());
  }
  compare_hash("stored", piece.encoded.hash_stored, found.hash_stored, place);
  compare_hash("raw", piece.encoded.hash_raw, found.hash_raw, place);
}

void BoxFiller::operator()(std::span<const std::byte> block) {
  const auto begin = seen_;
  seen_ += static_cast<std::int64_t>(block.size()) / size_of(from_);
  for (; next_ < runs_.size(); ++next_) {
    const CopyRun run = runs_[next_];
    const auto first = std::max(run.from, begin), last = std::min(run.from + run.count, seen_);
    if (first < last)
      convert_elements(from_, block.data() + (first - begin) * size_of(from_), to_,
                       data_ + (run.to + first - run.from) * size_of(to_), last - first);
    if (run.from + run.count > seen_) return;
  }
}

void read_box(PieceReader& reader, const StoredTensor& tensor, const Box& box, std::vector<std::byte>& raw) {
  raw.resize(static_cast<std::size_t>(box.count() * size_of(tensor.dtype)));
  for (const auto& piece : tensor.pieces)
    if (intersect(piece.box, box).count() > 0)
      reader.read(tensor, piece, BoxFiller(piece.box, tensor.dtype, box, tensor.dtype, raw.data()));
}

}  // namespace fivefold
