// The JSON header of a safetensors file and the index of a sharded set, both ways. Pure functions of text.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fivefold {

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorInfo> tensors;  // begin and end count from the start of the data
};

// The most that readers of the format accept.
constexpr std::int64_t kLargestSafetensorsHeader = 100'000'000;

// Bytes of one element of a dtype in the file's words; 0 for an unknown one.
std::int64_t safetensors_dtype_bytes(std::string_view dtype);
// The file's word for a dtype.
std::string safetensors_dtype(DType dtype);

// Throws Error with the reason: no JSON object, an unknown dtype or key, a name twice, more than four dims,
// offsets that do not fit shape and dtype, and tensors that do not fill `data_bytes` back to back.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::int64_t data_bytes);
// Padded with spaces to a multiple of 8 bytes, so that the data is aligned.
std::string safetensors_header_text(const SafetensorsHeader& header);

// Tensor name -> file name. Throws Error with the reason.
std::map<std::string, std::string> parse_safetensors_index(std::string_view json);
std::string safetensors_index_text(const std::map<std::string, std::string>& file_of,
                                   std::int64_t total_bytes);

}  // namespace fivefold
