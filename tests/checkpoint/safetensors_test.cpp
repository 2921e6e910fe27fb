// Reading and writing safetensors: the files of others, our own, and everything that must be refused.
#include "checkpoint/safetensors.h"

#include <cmath>
#include <limits>
#include <set>

#include "checkpoint/safetensors_header.h"
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

// A file of a header text and data bytes.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

void put(FileSystem& fs, const Path& path, const std::string& bytes) {
  const auto file = fs.create(path);
  file->append(std::as_bytes(std::span(bytes)));
  file->close();
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

std::string problem_of(const std::string& bytes) {
  FaultyFileSystem fs;
  put(fs, "/x.safetensors", bytes);
  return message_of([&] { SafetensorsReader reader(fs, "/x.safetensors"); });
}

std::string problem_of(const std::string& header, const std::string& data) {
  return problem_of(file_of(header, data));
}

template <class T>
std::vector<T> read_all(const SafetensorsReader& reader, const std::string& name, DType dtype) {
  const auto out = host_tensor(reader.at(name).shape, dtype);
  reader.read(name, whole(out.shape()), out);
  return {out.data<T>(), out.data<T>() + out.count()};
}

TEST(Safetensors, ReadsEveryDtype) {
  FaultyFileSystem fs;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"f":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
      R"("h":{"dtype":"F16","shape":[2,4],"data_offsets":[16,32]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[32,36]},)"
      R"("l":{"dtype":"I64","shape":[2],"data_offsets":[36,52]},"i":{"dtype":"I32","shape":[1],"data_offsets":[52,56]},)"
      R"("u":{"dtype":"U8","shape":[2],"data_offsets":[56,58]},"s":{"dtype":"F32","shape":[],"data_offsets":[58,62]},"e":{"dtype":"F32","shape":[0,3],"data_offsets":[62,62]}}  )";
  put(fs, "/x.safetensors",
      file_of(header,
              raw<double>({0.1}) + raw<float>({1.5f, -2.0f}) +
                  raw<std::uint16_t>({0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0x7c00, 0xfc00, 0x8000}) +
                  raw<std::uint16_t>({0x3f80, 0xc000}) + raw<std::int64_t>({-5, 1000}) +
                  raw<std::int32_t>({7}) + raw<std::uint8_t>({3, 255}) + raw<float>({9.0f})));
  const SafetensorsReader reader(fs, "/x.safetensors");
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_EQ(reader.tensors().size(), 9u);
  EXPECT_EQ(read_all<double>(reader, "d", DType::f64), std::vector<double>{0.1});
  EXPECT_EQ(read_all<float>(reader, "d", DType::f32), std::vector<float>{0.1f});
  EXPECT_EQ(read_all<double>(reader, "f", DType::f64), (std::vector<double>{1.5, -2}));
  const auto inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(read_all<float>(reader, "h", DType::f32),
            (std::vector<float>{1, -2, 0x1p-24f, 1023 * 0x1p-24f, 65504, inf, -inf, 0}));
  EXPECT_TRUE(std::signbit(read_all<float>(reader, "h", DType::f32)[7]));
  EXPECT_EQ(read_all<float>(reader, "b", DType::f32), (std::vector<float>{1, -2}));
  EXPECT_EQ(read_all<std::int32_t>(reader, "l", DType::i32), (std::vector<std::int32_t>{-5, 1000}));
  EXPECT_EQ(read_all<std::int32_t>(reader, "i", DType::i32), std::vector<std::int32_t>{7});
  EXPECT_EQ(read_all<std::uint8_t>(reader, "u", DType::u8), (std::vector<std::uint8_t>{3, 255}));
  EXPECT_EQ(read_all<float>(reader, "s", DType::f32), std::vector<float>{9});
  EXPECT_TRUE(read_all<float>(reader, "e", DType::f32).empty());
  EXPECT_EQ(SafetensorsReader::natural_dtype(reader.at("h")), DType::f32);
  EXPECT_TRUE(contains(message_of([&] { read_all<std::uint8_t>(reader, "l", DType::u8); }),
                       "tensor l holds -5, which does not fit u8"));
  EXPECT_TRUE(contains(message_of([&] { read_all<float>(reader, "i", DType::f32); }),
                       "holds whole numbers, which are not read as f32"));
  EXPECT_TRUE(contains(message_of([&] { read_all<std::int32_t>(reader, "f", DType::i32); }),
                       "only f64, f32 and bf16 convert"));
  EXPECT_TRUE(contains(message_of([&] { read_all<float>(reader, "ff", DType::f32); }),
                       "has no tensor ff; the nearest is 'f'"));
}

// All 65536 half numbers against their definition.
TEST(Safetensors, HalvesAreExact) {
  FaultyFileSystem fs;
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  put(fs, "/x.safetensors",
      file_of(R"({"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})",
              {reinterpret_cast<const char*>(halves.data()), 131072}));
  const auto floats = read_all<float>(SafetensorsReader(fs, "/x.safetensors"), "h", DType::f32);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31), mantissa = static_cast<int>(i & 1023);
    if (exponent == 31) {
      ASSERT_TRUE(mantissa ? std::isnan(floats[i]) : std::isinf(floats[i]));
    } else {
      const double value = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
      ASSERT_EQ(floats[i], static_cast<float>(value) * (i >> 15 ? -1.0f : 1.0f)) << i;
    }
    ASSERT_EQ(std::signbit(floats[i]), (i >> 15) != 0);
  }
}

TEST(Safetensors, ReadsBoxes) {
  FaultyFileSystem fs;
  const Shape shape{40, 70, 300};  // over three blocks
  std::vector<SafetensorSpec> specs{{"a", DType::i32, {2}}, {"x", DType::f32, shape}};
  fs.make_dir("/m");
  write_safetensors(fs, "/m", specs, [&](const SafetensorSpec& spec, const ByteSink& sink) {
    for (std::int64_t i = 0; i < spec.shape.count(); ++i) {
      const float value = static_cast<float>(i);
      const auto whole_number = static_cast<std::int32_t>(i);
      sink(spec.name == "x" ? std::as_bytes(std::span(&value, 1))
                            : std::as_bytes(std::span(&whole_number, 1)));
    }
  });
  const SafetensorsReader reader(fs, "/m");
  for (const Box& box : {whole(shape), Box{{3, 5, 7}, {9, 60, 290}}, Box{{39, 0, 0}, {40, 70, 300}},
                         Box{{2, 2, 2}, {2, 3, 3}}}) {
    const auto out = host_tensor(box.shape(), DType::f64);
    reader.read("x", box, out);
    for (std::int64_t i = 0; i < out.count(); ++i)
      ASSERT_EQ(out.data<double>()[i], static_cast<double>(global_index(shape, box, i)));
  }
}

// B62: the format allows no gaps, no overlaps, no trailing bytes, no name twice; nothing is read before that
// is known.
TEST(Safetensors, RefusesWhatTheFormatForbids) {
  const std::string x = R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", data(8, 'd');
  EXPECT_EQ(problem_of("{" + x + "}", data), "");
  EXPECT_TRUE(
      contains(problem_of("{" + x + "}", data + "t"), "the tensors need 8 bytes of data and the file has 9"));
  EXPECT_TRUE(contains(problem_of("{" + x + "}", data.substr(1)),
                       "the tensors need 8 bytes of data and the file has 7"));
  EXPECT_TRUE(contains(problem_of("{" + x + "," + x + "}", data), "the name 'x' appears twice"));
  EXPECT_TRUE(contains(problem_of("{" + x + R"(,"y":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", data),
                       "tensor y begins at byte 4 of the data where 8 is expected"));
  EXPECT_TRUE(
      contains(problem_of("{" + x + R"(,"y":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})", data + "xx"),
               "tensor y begins at byte 9"));
  EXPECT_TRUE(contains(problem_of(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", data),
                       "tensor x has bytes [0, 8) where F32 [3] needs 12"));
  EXPECT_TRUE(contains(problem_of(R"({"x":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", data),
                       "the unknown dtype F99"));
  EXPECT_TRUE(contains(problem_of(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", data),
                       "an extent of x"));
  EXPECT_TRUE(contains(problem_of(R"({"x":{"dtype":"F32","shape":[1,1,1,2,1],"data_offsets":[0,8]}})", data),
                       "at most 4 dims"));
  EXPECT_TRUE(contains(
      problem_of(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", data),
      "is too large"));
  EXPECT_TRUE(contains(problem_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", data),
                       "is not described by"));
  EXPECT_TRUE(contains(problem_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", data),
                       "tensor x has bytes [8, 0)"));
  EXPECT_TRUE(contains(problem_of(" {" + x + "}", data), "does not begin with '{'"));
  EXPECT_TRUE(contains(problem_of("{" + x + "}x", data), "/x.safetensors: "));
  EXPECT_TRUE(contains(problem_of("[1]", data), "/x.safetensors: "));
  EXPECT_TRUE(contains(problem_of(std::string("1234567")), "it has 7 bytes"));
  EXPECT_TRUE(contains(problem_of(raw<std::uint64_t>({100}) + "{}"),
                       "its header should have 100 bytes; the file has 2 more"));
  EXPECT_TRUE(contains(problem_of(raw<std::uint64_t>({~0ull}) + "{}"),
                       "its header should have 18446744073709551615 bytes"));
  FaultyFileSystem fs;
  put(fs, "/x.safetensors", file_of(R"({"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "ab"));
  EXPECT_TRUE(contains(
      message_of([&] { read_all<std::uint8_t>(SafetensorsReader(fs, "/x.safetensors"), "x", DType::u8); }),
      "tensor x is BOOL"));
}

// Every truncation of a small file.
TEST(Safetensors, EveryTruncationIsRefused) {
  const auto whole_file =
      file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", std::string(8, 'd'));
  for (std::size_t n = 0; n < whole_file.size(); ++n) EXPECT_NE(problem_of(whole_file.substr(0, n)), "") << n;
}

std::vector<SafetensorSpec> three() {
  return {{"c", DType::f32, {10}}, {"a", DType::bf16, {5, 2}}, {"b", DType::i32, {3}}};
}

void fill_three(const SafetensorSpec& spec, const ByteSink& sink) {
  for (std::int64_t i = 0; i < spec.shape.count(); ++i) {
    std::byte element[16];
    fill_bits(spec.name, i, element, size_of(spec.dtype));
    sink({element, static_cast<std::size_t>(size_of(spec.dtype))});
  }
}

void check_three(FileSystem& fs, const Path& path) {
  const SafetensorsReader reader(fs, path);
  ASSERT_EQ(reader.tensors().size(), 3u);
  for (const auto& spec : three()) {
    LocalTensor part{spec.name, spec.shape, whole(spec.shape), host_tensor(spec.shape, spec.dtype)};
    reader.read(spec.name, part.box, part.data);
    EXPECT_EQ(wrong_elements({part}, ""), 0) << spec.name;
  }
}

TEST(SafetensorsWriter, OneFileOrShards) {
  FaultyFileSystem fs;
  fs.make_dir("/one");
  EXPECT_EQ(write_safetensors(fs, "/one", three(), fill_three),
            std::vector<std::string>{"model.safetensors"});
  check_three(fs, "/one");
  check_three(fs, "/one/model.safetensors");
  fs.make_dir("/many");
  const auto names = write_safetensors(fs, "/many", three(), fill_three, {.shard_bytes = 40});
  EXPECT_EQ(names, (std::vector<std::string>{"model-00001-of-00002.safetensors",
                                             "model-00002-of-00002.safetensors"}));
  check_three(fs, "/many");
  check_three(fs, "/many/model.safetensors.index.json");
  const auto header = fs.bytes("/one/model.safetensors");
  EXPECT_EQ(header[0] % 8, 0);  // data begins aligned
}

TEST(SafetensorsWriter, RefusesWrongFills) {
  FaultyFileSystem fs;
  fs.make_dir("/m");
  const auto attempt = [&](const SafetensorFill& fill, std::vector<SafetensorSpec> specs) {
    return message_of([&] { write_safetensors(fs, "/m", specs, fill); });
  };
  EXPECT_TRUE(contains(attempt([](auto&, auto&) {}, three()), "bytes of c that were not given"));
  EXPECT_TRUE(contains(attempt([](auto&, auto& sink) { sink(std::vector<std::byte>(41)); }, three()),
                       "more than its 40 bytes"));
  EXPECT_TRUE(contains(attempt(fill_three, {three()[0], three()[0]}), "appears twice"));
}

TEST(SafetensorsIndex, MustAgreeWithItsFiles) {
  FaultyFileSystem fs;
  fs.make_dir("/m");
  write_safetensors(fs, "/m", three(), fill_three, {.shard_bytes = 40});
  const Path index = "/m/model.safetensors.index.json";
  const auto problem = [&](const std::map<std::string, std::string>& files) {
    fs.set_bytes(index, safetensors_index_text(files, 0));
    return message_of([&] { SafetensorsReader reader(fs, "/m"); });
  };
  const std::string one = "model-00001-of-00002.safetensors", two = "model-00002-of-00002.safetensors";
  EXPECT_EQ(problem({{"a", two}, {"b", two}, {"c", one}}), "");
  EXPECT_TRUE(contains(problem({{"a", one}, {"b", two}, {"c", one}}), "tensor a is not in " + one));
  EXPECT_TRUE(
      contains(problem({{"a", two}, {"b", two}, {"c", one}, {"d", one}}), "tensor d is not in " + one));
  EXPECT_TRUE(contains(problem({{"a", two}, {"c", one}}), "it names 2 tensors and its files hold 3"));
  EXPECT_TRUE(contains(problem({{"a", "../up"}}), "'../up' is not the name of a file beside it"));
  EXPECT_TRUE(contains(problem({{"a", "absent"}}), "/m/absent"));
  fs.set_bytes(index, "{}");
  EXPECT_TRUE(contains(message_of([&] { SafetensorsReader reader(fs, "/m"); }), "it has no weight_map"));
  EXPECT_TRUE(
      contains(message_of([&] { SafetensorsReader reader(fs, "/"); }), "has neither model.safetensors nor"));
  EXPECT_TRUE(contains(message_of([&] { SafetensorsReader reader(fs, "/none"); }), "there is no file /none"));
}

// Files that the safetensors library wrote.
TEST(Safetensors, ReadsTheFilesOfTransformers) {
  PosixFileSystem fs;
  const Path root = Path(FIVEFOLD_FIXTURES) / "hf";
  const SafetensorsReader llama(fs, root / "llama");
  EXPECT_EQ(llama.at("model.embed_tokens.weight").shape[0], 250);
  for (const auto& tensor : llama.tensors()) {
    const auto values = read_all<double>(llama, tensor.name, DType::f64);
    double squares = 0;
    for (const double value : values) squares += value * value;
    EXPECT_TRUE(std::isfinite(squares) && squares > 0) << tensor.name;
  }
  const SafetensorsReader sharded(fs, root / "llama_bf16_sharded");
  std::set<std::size_t> files;
  for (const auto& tensor : sharded.tensors()) files.insert(tensor.file);
  EXPECT_EQ(files, (std::set<std::size_t>{0, 1}));
  EXPECT_EQ(sharded.at("model.embed_tokens.weight").dtype, "BF16");
  const SafetensorsReader reference(fs, root / "llama" / "reference.safetensors");
  const auto tokens = read_all<std::int32_t>(reference, "tokens", DType::i32);
  EXPECT_TRUE(std::all_of(tokens.begin(), tokens.end(), [](std::int32_t t) { return 0 <= t && t < 250; }));
}

}  // namespace
}  // namespace fivefold::test
