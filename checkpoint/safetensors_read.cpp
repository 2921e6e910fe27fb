// Reads by offset (never by memory map: a file that shrinks would give zeros instead of an error).
#include <algorithm>
#include <cstring>

#include "checkpoint/convert.h"
#include "checkpoint/plan.h"
#include "checkpoint/safetensors_header.h"
#include "core/nearest.h"

namespace fivefold {

namespace {

// IEEE half precision: 1 sign, 5 exponent, 10 mantissa bits. Exact in f32.
float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16, exponent = half >> 10 & 0x1fu,
                      mantissa = half & 0x3ffu;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

template <class T>
T element(const std::byte* in, std::int64_t i) {
  T value;
  std::memcpy(&value, in + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

void halves_to_floats(const std::byte* in, std::byte* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = half_to_float(element<std::uint16_t>(in, i));
    std::memcpy(out + i * 4, &value, 4);
  }
}

template <class From, class To>
void whole_numbers(const std::byte* in, std::byte* out, std::int64_t count, const std::string& name) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = element<From>(in, i);
    if (!std::in_range<To>(value))
      throw UserError(str("tensor ", name, " holds ", static_cast<std::int64_t>(value),
                          ", which does not fit ", dtype_of<To>()));
    const auto narrow = static_cast<To>(value);
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof(To)), &narrow, sizeof(To));
  }
}

template <class From>
void whole_numbers(const std::byte* in, DType to, std::byte* out, std::int64_t count,
                   const std::string& name) {
  if (to == DType::i32) return whole_numbers<From, std::int32_t>(in, out, count, name);
  if (to == DType::u8) return whole_numbers<From, std::uint8_t>(in, out, count, name);
  throw UserError(str("tensor ", name, " holds whole numbers, which are not read as ", to));
}

// Converts elements as the file holds them.
class Converter {
 public:
  Converter(const SafetensorInfo& tensor, DType to) : tensor_(tensor), to_(to) {}
  void operator()(const std::byte* in, std::byte* out, std::int64_t count) {
    const auto& from = tensor_.dtype;
    if (from == "I64") return whole_numbers<std::int64_t>(in, to_, out, count, tensor_.name);
    if (from == "I32") return whole_numbers<std::int32_t>(in, to_, out, count, tensor_.name);
    if (from == "U8") return whole_numbers<std::uint8_t>(in, to_, out, count, tensor_.name);
    if (from != "F16")
      return convert_elements(SafetensorsReader::natural_dtype(tensor_), in, to_, out, count);
    floats_.resize(static_cast<std::size_t>(count) * 4);
    halves_to_floats(in, floats_.data(), count);
    convert_elements(DType::f32, floats_.data(), to_, out, count);
  }

 private:
  const SafetensorInfo& tensor_;
  DType to_;
  std::vector<std::byte> floats_;
};

std::string read_header_text(const ReadableFile& file) {
  std::uint64_t length = 0;
  if (file.size() < 8) throw Error(str("it has ", file.size(), " bytes; a header length alone has 8"));
  file.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > static_cast<std::uint64_t>(std::min(kLargestSafetensorsHeader, file.size() - 8)))
    throw Error(str("its header should have ", length, " bytes; the file has ", file.size() - 8,
                    " more and the most is ", kLargestSafetensorsHeader));
  std::string text(length, '\0');
  file.read_at(8, std::as_writable_bytes(std::span(text)));
  return text;
}

// Runs `work`; what it throws names the file.
template <class F>
auto about(const Path& path, F&& work) {
  try {
    return work();
  } catch (const std::exception& e) {
    throw UserError(str(path.string(), ": ", e.what()));
  }
}

}  // namespace

SafetensorsReader::SafetensorsReader(FileSystem& fs, const Path& path) {
  const bool folder = fs.kind(path) == PathKind::directory;
  const Path single = folder ? path / "model.safetensors" : path;
  const Path index = folder ? path / "model.safetensors.index.json" : path;
  if (!single.string().ends_with(".json") && fs.kind(single) == PathKind::file)
    add_file(fs, single);
  else if (index.string().ends_with(".json") && fs.kind(index) == PathKind::file)
    add_index(fs, index);
  else
    throw UserError(
        folder ? str(path.string(), " has neither model.safetensors nor model.safetensors.index.json")
               : str("there is no file ", path.string()));
  sort();
}

void SafetensorsReader::add_file(FileSystem& fs, const Path& path) {
  std::shared_ptr<ReadableFile> file = fs.open(path);
  about(path, [&] {
    const auto text = read_header_text(*file);
    const auto data_begin = 8 + static_cast<std::int64_t>(text.size());
    auto header = parse_safetensors_header(text, file->size() - data_begin);
    for (auto& tensor : header.tensors) {
      tensor.file = files_.size();
      tensor.begin += data_begin;
      tensor.end += data_begin;
      tensors_.push_back(std::move(tensor));
    }
    metadata_.merge(header.metadata);
  });
  files_.push_back({path, std::move(file)});
}

void SafetensorsReader::add_index(FileSystem& fs, const Path& path) {
  const auto file_of = about(path, [&] { return parse_safetensors_index(read_text(fs, path)); });
  std::map<std::string, bool> opened;
  for (const auto& [name, file] : file_of)
    if (!std::exchange(opened[file], true)) add_file(fs, path.parent_path() / file);
  sort();
  about(path, [&] {
    for (const auto& [name, file] : file_of) {
      const auto* tensor = find(name);
      if (!tensor || files_[tensor->file].path.filename() != file)
        throw Error(str("tensor ", name, " is not in ", file));
    }
    if (tensors_.size() != file_of.size())
      throw Error(str("it names ", file_of.size(), " tensors and its files hold ", tensors_.size()));
  });
}

void SafetensorsReader::sort() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const SafetensorInfo& a, const SafetensorInfo& b) { return a.name < b.name; });
}

const SafetensorInfo* SafetensorsReader::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const SafetensorInfo& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const SafetensorInfo& SafetensorsReader::at(std::string_view name) const {
  if (const auto* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  for (const auto& tensor : tensors_) names.push_back(tensor.name);
  throw UserError(str(files_.front().path.string(), " has no tensor ", name, "; the nearest is '",
                      nearest_name(name, names), "'"));
}

DType SafetensorsReader::natural_dtype(const SafetensorInfo& tensor) {
  const auto& word = tensor.dtype;
  if (word == "F64") return DType::f64;
  if (word == "F32" || word == "F16") return DType::f32;
  if (word == "BF16") return DType::bf16;
  if (word == "I64" || word == "I32") return DType::i32;
  if (word == "U8") return DType::u8;
  throw UserError(
      str("tensor ", tensor.name, " is ", word, "; F64, F32, F16, BF16, I64, I32 and U8 can be read"));
}

void SafetensorsReader::read(std::string_view name, const Box& box, const Tensor& out) const {
  const SafetensorInfo& tensor = at(name);
  const auto width = safetensors_dtype_bytes(tensor.dtype), out_width = size_of(out.dtype());
  natural_dtype(tensor);
  FF_CHECK(out.device().kind == DeviceKind::cpu && out.count() == box.count(), tensor.name, ": ", out.shape(),
           " for box ", box);
  FF_CHECK(intersect(whole(tensor.shape), box) == box, tensor.name, ": box ", box, " outside ", tensor.shape);
  Converter convert(tensor, out.dtype());
  std::vector<std::byte> block;
  const BoxRuns runs(whole(tensor.shape), box);
  for (std::int64_t i = 0; i < runs.size(); ++i)
    for (CopyRun run = runs[i]; run.count > 0;) {
      const auto count = std::min(run.count, kBlockBytes / width);
      block.resize(static_cast<std::size_t>(count * width));
      files_[tensor.file].file->read_at(tensor.begin + run.from * width, block);
      convert(block.data(), out.raw() + run.to * out_width, count);
      run = {run.from + count, run.to + count, run.count - count};
    }
}

}  // namespace fivefold
