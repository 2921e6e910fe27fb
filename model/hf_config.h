// config.json of Hugging Face models: values in, values out, no files. Both spellings are read:
// rope_parameters (since transformers 5) and rope_theta with rope_scaling.
#pragma once
#include "core/json_fwd.h"
#include "model/config.h"

namespace fivefold {

// The shape that a config.json describes, completed. Families: gpt2, llama, mistral, mixtral, olmoe, qwen2,
// qwen3, qwen3_moe. Absent keys have transformers' defaults. Throws UserError, naming key and value, for a
// family or a feature that Fivefold lacks, and for a missing or ill-typed key. Dropout is left out: Fivefold
// trains without.
ModelConfig config_from_hf(const Json& config);

// The config.json of config.family with weights stored as `dtype`. Features that the family cannot express
// are lost, so an exporter compares config_from_hf(config_to_hf(c)) with c.
Json config_to_hf(const ModelConfig& config, DType dtype);

}  // namespace fivefold
