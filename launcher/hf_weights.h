// Weights in Hugging Face files, read as boxes of our parameters.
#pragma once
#include <filesystem>
#include <map>

#include "checkpoint/safetensors.h"
#include "launcher/engine.h"
#include "model/hf_map.h"

namespace fivefold {

class HfWeights {
 public:
  // `path` is a folder with model.safetensors or its sharded form, or a file. Only tensors whose names begin
  // with `prefix` take part ("grad." in a stored trajectory). Throws UserError for one that the model has no
  // place for.
  HfWeights(FileSystem& fs, const std::filesystem::path& path, const ModelConfig& config,
            const std::string& prefix = "", HfExperts experts = HfExperts::apart);
  // Fills `out` (host memory, floating) with a box of our parameter. Throws UserError where theirs is missing
  // or of another shape. Reads only the box.
  void read(const std::string& ours, const Box& box, const Tensor& out) const;
  // The dtype that holds the stored values of our parameter without loss (f16 becomes f32).
  DType natural_dtype(const std::string& ours) const;

 private:
  const SafetensorInfo& stored(const HfPiece& piece) const;
  void refuse_unknown(const ModelConfig& config) const;
  SafetensorsReader reader_;
  std::map<std::string, std::string> theirs_;           // canonical name -> name in the file
  std::map<std::string, std::vector<HfPiece>> pieces_;  // by our name
};

// A folder with a config.json is one.
bool is_hf_folder(const std::filesystem::path& path);

// Writes the masters of this rank's shards, reading only their boxes. No communication.
void load_hf_weights(Engine& engine, const std::filesystem::path& dir);

}  // namespace fivefold
