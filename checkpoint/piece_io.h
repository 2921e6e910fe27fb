// Pieces in files: the only code that writes or reads tensor bytes. The reader is the validator that loading,
// verifying, comparing and rewriting share.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/plan.h"

namespace fivefold {

// Boxes are stored in pieces of at most so many raw bytes: what a load under another layout has to read at
// least.
constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;

// Writes one file of a checkpoint. The file appears with the first piece: a rank that owns nothing leaves
// none.
class PieceWriter {
 public:
  PieceWriter(FileSystem& fs, Path dir, std::string file, Compression compression,
              std::int64_t piece_bytes = kPieceBytes);
  // Appends a non-empty box of a tensor; `raw` holds its elements, row-major.
  void write(const std::string& name, DType dtype, const Shape& global, const Box& box,
             std::span<const std::byte> raw);
  // Synchronises and closes; afterwards everything written survives a power loss but for the file's name.
  // Returns what the manifest must say about it (file and tensors in order of writing).
  Manifest finish();

 private:
  StoredTensor& tensor_entry(const std::string& name, DType dtype, const Shape& global);
  void append(std::span<const std::byte> bytes);
  FileSystem& fs_;
  Path dir_;
  std::string file_name_;
  std::int64_t piece_bytes_;
  Encoder encoder_;
  std::unique_ptr<WritableFile> file_;
  std::int64_t bytes_ = 0;
  Manifest part_;
};

// Reads pieces of one checkpoint, best in order of file and offset.
class PieceReader {
 public:
  PieceReader(FileSystem& fs, Path dir) : fs_(fs), dir_(std::move(dir)) {}
  // Passes the raw elements to `sink` in order, in spans of whole elements of at most kBlockBytes, and
  // compares both hashes at the end. Throws CorruptCheckpoint naming file, tensor, box, expected and found.
  void read(const StoredTensor& tensor, const Piece& piece, const ByteSink& sink);

 private:
  FileSystem& fs_;
  Path dir_;
  Decoder decoder_;
  std::string open_name_;
  std::unique_ptr<ReadableFile> open_;
};

// Copies the elements that a piece shares with a wanted box from a stream of the piece's blocks.
class BoxFiller {
 public:
  // `data` holds the elements of `wanted`, row-major, as `to`; the stream holds those of `piece` as `from`.
  BoxFiller(const Box& piece, DType from, const Box& wanted, DType to, std::byte* data)
      : runs_(piece, wanted), from_(from), to_(to), data_(data) {}
  void operator()(std::span<const std::byte> block);

 private:
  BoxRuns runs_;
  DType from_, to_;
  std::byte* data_;
  std::int64_t seen_ = 0;  // elements of the piece before the present block
  std::int64_t next_ = 0;  // first run that is not finished
};

// Fills `raw` with a box of a tensor from the pieces that share elements with it.
void read_box(PieceReader& reader, const StoredTensor& tensor, const Box& box, std::vector<std::byte>& raw);

}  // namespace fivefold
