// Strict reading of the header: every byte of the data belongs to exactly one tensor.
#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <set>

#include "core/json.h"

namespace fivefold {

namespace {

struct Word {
  std::string_view name;
  std::int64_t bytes;
};
constexpr Word kWords[] = {{"F64", 8}, {"F32", 4}, {"BF16", 2}, {"F16", 2},     {"I64", 8},
                           {"U64", 8}, {"I32", 4}, {"U32", 4},  {"I16", 2},     {"U16", 2},
                           {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

// The object of the text. A name that appears twice would silently hide a tensor, so the parser reports each
// key.
Json parse_object(std::string_view text) {
  std::vector<std::set<std::string>> open;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      throw Error(str("the name '", value.get<std::string>(), "' appears twice"));
    return true;
  };
  const Json json = Json::parse(text, watch);
  if (!json.is_object()) throw Error("it is no JSON object");
  return json;
}

std::int64_t whole_number(const Json& json, const std::string& what) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > std::uint64_t{1} << 62)
    throw Error(str(what, " is not a number of bytes or elements: ", json.dump()));
  return json.get<std::int64_t>();
}

Shape shape_from(const Json& json, const std::string& name) {
  if (!json.is_array() || json.size() > Shape::kMaxRank)
    throw Error(str("tensor ", name, " has shape ", json.dump(), "; at most ", Shape::kMaxRank,
                    " dims are supported"));
  std::vector<std::int64_t> extents;
  for (const auto& extent : json) extents.push_back(whole_number(extent, "an extent of " + name));
  return Shape(std::span<const std::int64_t>(extents));
}

// Bytes of the tensor; throws where the product does not fit 62 bits.
std::int64_t expected_bytes(const SafetensorInfo& tensor) {
  std::int64_t bytes = safetensors_dtype_bytes(tensor.dtype);
  if (bytes == 0) throw Error(str("tensor ", tensor.name, " has the unknown dtype ", tensor.dtype));
  for (int d = 0; d < tensor.shape.rank(); ++d)
    if (__builtin_mul_overflow(bytes, tensor.shape[d], &bytes))
      throw Error(str("tensor ", tensor.name, " is too large: ", tensor.shape));
  return bytes;
}

const Json& member(const Json& object, const char* key, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end()) throw Error(str("tensor ", name, " has no ", key));
  return *found;
}

SafetensorInfo tensor_from(const std::string& name, const Json& json) {
  if (!json.is_object() || json.size() != 3)
    throw Error(str("tensor ", name, " is not described by dtype, shape and data_offsets"));
  SafetensorInfo tensor{.name = name,
                        .dtype = member(json, "dtype", name).get<std::string>(),
                        .shape = shape_from(member(json, "shape", name), name)};
  const auto& offsets = member(json, "data_offsets", name);
  if (!offsets.is_array() || offsets.size() != 2)
    throw Error(str("tensor ", name, " has data_offsets ", offsets.dump()));
  tensor.begin = whole_number(offsets[0], "an offset of " + name);
  tensor.end = whole_number(offsets[1], "an offset of " + name);
  if (tensor.end - tensor.begin != expected_bytes(tensor))
    throw Error(str("tensor ", name, " has bytes [", tensor.begin, ", ", tensor.end, ") where ", tensor.dtype,
                    " ", tensor.shape, " needs ", expected_bytes(tensor)));
  return tensor;
}

// Tensors fill [0, data_bytes) back to back, in whatever order the header lists them.
void check_offsets(std::vector<SafetensorInfo> tensors, std::int64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(),
            [](auto& a, auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::int64_t end = 0;
  for (const auto& tensor : tensors) {
    if (tensor.begin != end)
      throw Error(str("tensor ", tensor.name, " begins at byte ", tensor.begin, " of the data where ", end,
                      " is expected"));
    end = tensor.end;
  }
  if (end != data_bytes)
    throw Error(str("the tensors need ", end, " bytes of data and the file has ", data_bytes));
}

}  // namespace

std::int64_t safetensors_dtype_bytes(std::string_view dtype) {
  for (const auto& word : kWords)
    if (word.name == dtype) return word.bytes;
  return 0;
}

std::string safetensors_dtype(DType dtype) {
  std::string word(name_of(dtype));
  for (char& c : word) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return word;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes) {
  if (!text.starts_with('{')) throw Error("its header does not begin with '{'");
  SafetensorsHeader header;
  const auto object = parse_object(text);
  for (const auto& [name, value] : object.items()) {
    if (name == "__metadata__")
      header.metadata = value.get<std::map<std::string, std::string>>();
    else
      header.tensors.push_back(tensor_from(name, value));
  }
  check_offsets(header.tensors, data_bytes);
  return header;
}

std::string safetensors_header_text(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json["__metadata__"] = header.metadata;
  for (const auto& tensor : header.tensors) {
    Json shape = Json::array();
    for (int d = 0; d < tensor.shape.rank(); ++d) shape.push_back(tensor.shape[d]);
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump();
  text.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(text.size()), 8)), ' ');
  return text;
}

std::map<std::string, std::string> parse_safetensors_index(std::string_view text) {
  const Json json = parse_object(text);
  const auto found = json.find("weight_map");
  if (found == json.end()) throw Error("it has no weight_map");
  auto files = found->get<std::map<std::string, std::string>>();
  for (const auto& [name, file] : files)
    if (file.empty() || file.find('/') != std::string::npos)
      throw Error(str("'", file, "' is not the name of a file beside it"));
  return files;
}

std::string safetensors_index_text(const std::map<std::string, std::string>& file_of,
                                   std::int64_t total_bytes) {
  Json json;
  json["metadata"]["total_size"] = total_bytes;
  json["weight_map"] = file_of;
  return json.dump(2) + "\n";
}

}  // namespace fivefold
