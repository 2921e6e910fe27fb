// The safetensors format of Hugging Face: u64 header length, JSON header, the tensors' bytes back to back,
// all little endian. Reads single files and sharded sets, writes both. Strict: what the format forbids is
// refused before any value is used.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/codec.h"
#include "checkpoint/file_system.h"
#include "core/tensor.h"
#include "parallel/mesh/partition.h"

namespace fivefold {

// A tensor as the file describes it.
struct SafetensorInfo {
  std::string name;
  std::string dtype;  // in the file's words: F64 F32 F16 BF16 I64 I32 U8 ...
  Shape shape;
  std::size_t file = 0;             // of a sharded set
  std::int64_t begin = 0, end = 0;  // bytes within the file
};

class SafetensorsReader {
 public:
  // `path` is a .safetensors file, a .safetensors.index.json, or a folder that has model.safetensors or its
  // index. Throws UserError naming file and tensor for anything that is not as the format or the index says.
  SafetensorsReader(FileSystem& fs, const Path& path);

  const std::vector<SafetensorInfo>& tensors() const { return tensors_; }           // sorted by name
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // of all files together
  // Null if there is none of that name.
  const SafetensorInfo* find(std::string_view name) const;
  // Throws UserError that names the nearest one.
  const SafetensorInfo& at(std::string_view name) const;
  // The dtype that holds the values without loss: F16 becomes f32, I64 i32. Throws UserError for one that has
  // none here.
  static DType natural_dtype(const SafetensorInfo& tensor);

  // Fills `out` (host memory, box.count() elements, row-major) with a box of the tensor, converted to out's
  // dtype: floating numbers into f64, f32 or bf16 to nearest, whole numbers into i32 or u8 (UserError if a
  // value does not fit). Reads only the rows of the box. Memory: one block.
  void read(std::string_view name, const Box& box, const Tensor& out) const;

 private:
  void add_file(FileSystem& fs, const Path& path);
  void add_index(FileSystem& fs, const Path& path);
  void sort();
  struct File {
    Path path;
    std::shared_ptr<ReadableFile> file;
  };
  std::vector<File> files_;
  std::vector<SafetensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

// ---- writing ----

struct SafetensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};
struct SafetensorsOptions {
  std::int64_t shard_bytes = 5'000'000'000;  // a new file begins where the next tensor would pass this
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
};
// Called for each tensor in order; passes all its bytes, row-major, to the sink in any number of parts.
using SafetensorFill = std::function<void(const SafetensorSpec& tensor, const ByteSink& sink)>;

// Writes model.safetensors, or model-00001-of-00002.safetensors, ... and model.safetensors.index.json, into
// the existing folder `dir`. Every file is complete and synchronised before it gets its name. Returns the
// names of the files.
std::vector<std::string> write_safetensors(FileSystem& fs, const Path& dir,
                                           const std::vector<SafetensorSpec>& tensors,
                                           const SafetensorFill& fill,
                                           const SafetensorsOptions& options = {});

}  // namespace fivefold
