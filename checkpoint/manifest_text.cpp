// manifest.json as text, both ways. The writer is by hand so that a person finds one piece a line; the reader
// accepts exactly the keys that the writer writes.
#include <set>

#include "checkpoint/hash.h"
#include "checkpoint/manifest.h"
#include "core/json.h"

namespace fivefold {

namespace {

constexpr std::string_view kStart = "{\n\"format\": \"fivefold-checkpoint\",\n\"version\": ";
constexpr std::string_view kBeforeHash = ",\n\"hash\": \"";
constexpr std::size_t kHashDigits = 16;

// ---- writing ----

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string list_text(const Shape& shape) {
  std::string text = "[";
  for (int d = 0; d < shape.rank(); ++d) text += (d ? "," : "") + std::to_string(shape[d]);
  return text + "]";
}

void append_piece(std::string& out, const Piece& piece) {
  out +=
      str("{\"begin\":", list_text(piece.box.begin), ",\"end\":", list_text(piece.box.end),
          ",\"file\":", quoted(piece.file), ",\"offset\":", piece.offset,
          ",\"stored\":", piece.encoded.stored_bytes, ",\"raw\":", piece.encoded.raw_bytes, ",\"codec\":\"",
          name_of(piece.codec), "\",\"hash_stored\":\"", hash_hex(piece.encoded.hash_stored),
          "\",\"hash_raw\":\"", hash_hex(piece.encoded.hash_raw), "\"}");
}

void append_tensor(std::string& out, const StoredTensor& tensor) {
  out += str("{\"name\":", quoted(tensor.name), ",\"dtype\":\"", name_of(tensor.dtype),
             "\",\"shape\":", list_text(tensor.shape), ",\"pieces\":[");
  const char* separator = "\n ";
  for (const auto& piece : tensor.pieces) {
    out += std::exchange(separator, ",\n ");
    append_piece(out, piece);
  }
  out += "]}";
}

std::string files_and_tensors(const Manifest& manifest) {
  std::string out = "\"files\": [";
  const char* separator = "\n";
  for (const auto& file : manifest.files)
    out +=
        str(std::exchange(separator, ",\n"), "{\"name\":", quoted(file.name), ",\"bytes\":", file.bytes, "}");
  out += "],\n\"tensors\": [";
  separator = "\n";
  for (const auto& tensor : manifest.tensors) {
    out += std::exchange(separator, ",\n");
    append_tensor(out, tensor);
  }
  return out + "]\n}\n";
}

std::string state_text(const RunState& state) {
  return str("\"step\": ", state.step, ",\n\"samples\": ", state.samples, ",\n\"seed\": ", state.seed,
             ",\n\"config\": ", quoted(state.config), ",\n\"data_hash\": ", quoted(state.data_hash),
             ",\n\"tokenizer_hash\": ", quoted(state.tokenizer_hash),
             ",\n\"extra\": ", Json(state.extra).dump(-1, ' ', false, Json::error_handler_t::replace), ",\n");
}

// ---- reading ----

// The values of an object whose keys must all be asked for.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) throw Error(str("an object is wanted instead of ", object.dump().substr(0, 40)));
  }
  template <class T>
  T get(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) throw Error(str("the key '", key, "' is missing"));
    asked_.insert(key);
    return value<T>(*found, key);
  }
  void finish() const {
    for (const auto& [key, unused] : object_.items())
      if (!asked_.count(key)) throw Error(str("unknown key '", key, "'"));
  }

 private:
  template <class T>
  static T value(const Json& json, const char* key) {
    if constexpr (std::is_integral_v<T>) {
      if (!(std::is_signed_v<T> ? json.is_number_integer() : json.is_number_unsigned()))
        throw Error(str("'", key, "' is not a whole number"));
    }
    return json.get<T>();
  }
  const Json& object_;
  std::set<std::string, std::less<>> asked_;
};

Shape shape_field(Fields& fields, const char* key) {
  const auto extents = fields.get<std::vector<std::int64_t>>(key);
  if (extents.size() > Shape::kMaxRank)
    throw Error(str("a tensor of ", extents.size(), " dims; the most is ", Shape::kMaxRank));
  return Shape(std::span<const std::int64_t>(extents));
}

std::uint64_t hash_field(Fields& fields, const char* key) {
  const auto hash = hash_from_hex(fields.get<std::string>(key));
  if (!hash) throw Error(str("'", key, "' is not 16 hexadecimal digits"));
  return *hash;
}

Piece piece_from(const Json& json) {
  Fields fields(json);
  Piece piece;
  piece.box = {shape_field(fields, "begin"), shape_field(fields, "end")};
  piece.file = fields.get<std::string>("file");
  piece.offset = fields.get<std::int64_t>("offset");
  piece.codec = codec_from(fields.get<std::string>("codec"));
  piece.encoded = {fields.get<std::int64_t>("stored"), fields.get<std::int64_t>("raw"),
                   hash_field(fields, "hash_stored"), hash_field(fields, "hash_raw")};
  fields.finish();
  return piece;
}

StoredTensor tensor_from(const Json& json) {
  Fields fields(json);
  StoredTensor tensor{fields.get<std::string>("name"),
                      dtype_from(fields.get<std::string>("dtype")),
                      shape_field(fields, "shape"),
                      {}};
  for (const auto& piece : fields.get<Json>("pieces")) tensor.pieces.push_back(piece_from(piece));
  fields.finish();
  return tensor;
}

void read_files_and_tensors(Fields& fields, Manifest& manifest) {
  for (const auto& file : fields.get<Json>("files")) {
    Fields entry(file);
    manifest.files.push_back({entry.get<std::string>("name"), entry.get<std::int64_t>("bytes")});
    entry.finish();
  }
  for (const auto& tensor : fields.get<Json>("tensors")) manifest.tensors.push_back(tensor_from(tensor));
}

Manifest parse(std::string_view text) {
  const Json json = Json::parse(text);
  Fields fields(json);
  Manifest manifest;
  for (const char* key : {"format", "version", "hash"}) fields.get<Json>(key);
  manifest.generation = fields.get<std::int64_t>("generation");
  auto& state = manifest.state;
  state.step = fields.get<std::int64_t>("step");
  state.samples = fields.get<std::int64_t>("samples");
  state.seed = fields.get<std::uint64_t>("seed");
  state.config = fields.get<std::string>("config");
  state.data_hash = fields.get<std::string>("data_hash");
  state.tokenizer_hash = fields.get<std::string>("tokenizer_hash");
  state.extra = fields.get<std::map<std::string, std::string>>("extra");
  read_files_and_tensors(fields, manifest);
  fields.finish();
  return manifest;
}

// Position of the hash's first digit. Everything before it is fixed but for the version.
std::size_t hash_position(std::string_view text) {
  if (!text.starts_with(kStart)) throw CorruptCheckpoint("it does not begin like a manifest of this program");
  const auto end = text.find_first_not_of("0123456789", kStart.size());
  const auto version = text.substr(kStart.size(), end - kStart.size());
  if (version != std::to_string(kManifestVersion))
    throw CorruptCheckpoint(
        str("format version '", version.substr(0, 20), "'; this program reads ", kManifestVersion));
  if (!text.substr(end).starts_with(kBeforeHash) || text.size() < end + kBeforeHash.size() + kHashDigits)
    throw CorruptCheckpoint("it does not begin like a manifest of this program");
  return end + kBeforeHash.size();
}

// Of the text with its hash's digits taken out.
std::uint64_t computed_hash(std::string_view text, std::size_t position) {
  Xxh3 hash;
  hash.update(std::as_bytes(std::span(text.substr(0, position))));
  hash.update(std::as_bytes(std::span(text.substr(position + kHashDigits))));
  return hash.digest();
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  std::string text = str(kStart, kManifestVersion, kBeforeHash);
  const auto position = text.size();
  text += str(std::string(kHashDigits, '0'), "\",\n\"generation\": ", manifest.generation, ",\n",
              state_text(manifest.state), files_and_tensors(manifest));
  return text.replace(position, kHashDigits, hash_hex(computed_hash(text, position)));
}

std::uint64_t manifest_hash(std::string_view text) {
  const auto hash = hash_from_hex(text.substr(hash_position(text), kHashDigits));
  if (!hash) throw CorruptCheckpoint("its hash is not 16 hexadecimal digits");
  return *hash;
}

Manifest manifest_from(std::string_view text, const std::string& where) {
  Manifest manifest;
  try {
    const auto expected = manifest_hash(text), found = computed_hash(text, hash_position(text));
    if (expected != found)
      throw Error(str("its hash is ", hash_hex(found), " where it says ", hash_hex(expected)));
    manifest = parse(text);
  } catch (const std::exception& e) {
    throw CorruptCheckpoint(str(where, ": ", e.what()));
  }
  check_manifest(manifest, where);
  return manifest;
}

std::string part_to_text(const Manifest& part) { return "{" + files_and_tensors(part); }

Manifest part_from(std::string_view text) {
  const Json json = Json::parse(text);
  Fields fields(json);
  Manifest part;
  read_files_and_tensors(fields, part);
  fields.finish();
  return part;
}

}  // namespace fivefold
