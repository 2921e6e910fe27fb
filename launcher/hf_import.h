// Hugging Face folders to checkpoints and back, tensor by tensor: neither direction holds the whole model in
// memory.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/save.h"
#include "model/config.h"

namespace fivefold {

struct ImportReport {
  ModelConfig model;
  std::int64_t tensors = 0;
  SavedCheckpoint saved;
};

// Writes the weights of the folder `dir` as checkpoint `out`: step 0, tensors model/..., in the dtypes of the
// files (f16 becomes f32). The configuration in it holds the shape. Memory: one piece. Throws UserError where
// `out` exists, the folder is none, or its tensors are not those that config.json promises.
ImportReport import_hf(FileSystem& fs, const Path& dir, const Path& out);

struct ExportReport {
  ModelConfig model;
  DType dtype = DType::f32;
  std::vector<std::string> files;
};

// Writes config.json and safetensors of checkpoint `checkpoint` into `out`. Weights come from master/...
// where the checkpoint has them and `dtype` asks for more than the compute copy holds. `dtype`: nothing means
// that of model/... . Memory: one tensor of theirs. Throws UserError where `out` holds files already, or the
// family's config.json cannot express the model, naming the keys.
ExportReport export_hf(FileSystem& fs, const Path& checkpoint, const Path& out,
                       std::optional<DType> dtype = {});

}  // namespace fivefold
