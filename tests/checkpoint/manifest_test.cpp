// Manifests: the text says everything, and nothing else is accepted.
#include "checkpoint/hash.h"
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

Piece piece(const Box& box, const std::string& file, std::int64_t offset, std::int64_t stored,
            std::int64_t raw) {
  return {box, file, offset, PieceCodec::planes, {stored, raw, 0x0123456789abcdefull, 0xfedcba9876543210ull}};
}

Manifest example() {
  Manifest manifest;
  manifest.generation = 3;
  manifest.state = state_at(100);
  manifest.state.seed = 0xffffffffffffffffull;
  manifest.state.extra["quote \" and \\"] = "line\nbreak";
  manifest.files = {{"rank_00000.bin", 50}, {"rank_00001.bin", 30}};
  manifest.tensors = {{"adam_m/x",
                       DType::f32,
                       {4, 6},
                       {piece({{0, 0}, {4, 3}}, "rank_00000.bin", 0, 40, 48),
                        piece({{0, 3}, {4, 6}}, "rank_00001.bin", 0, 30, 48)}},
                      {"model/scale", DType::f64, {}, {piece({{}, {}}, "rank_00000.bin", 40, 10, 8)}},
                      {"model/z", DType::i32, {0}, {}}};
  return manifest;
}

std::string problem_of(const std::function<void(Manifest&)>& change) {
  auto manifest = example();
  change(manifest);
  const auto text = to_text(manifest);
  return message_of([&] { manifest_from(text, "m"); });
}

TEST(ManifestText, RoundTrips) {
  const auto text = to_text(example());
  EXPECT_EQ(manifest_from(text, "m"), example());
  EXPECT_EQ(to_text(manifest_from(text, "m")), text);
  EXPECT_TRUE(text.starts_with("{\n\"format\": \"fivefold-checkpoint\",\n\"version\": 1,\n\"hash\": \""));
}

TEST(ManifestText, PartsTravelAsText) {
  const auto part = part_from(part_to_text(example()));
  EXPECT_EQ(part.tensors, example().tensors);
  EXPECT_EQ(part.files, example().files);
}

// B60: every bit of the text.
TEST(ManifestText, EveryFlippedBitIsNoticed) {
  const auto text = to_text(example());
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    auto changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    ASSERT_THROW(manifest_from(changed, "m"), CorruptCheckpoint) << "bit " << bit;
  }
}

TEST(ManifestText, AnotherVersionIsNamed) {
  auto text = to_text(example());
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_EQ(message_of([&] { manifest_from(text, "m"); }), "m: format version '2'; this program reads 1");
}

// The text with its hash made right again, so that only the parser can object.
std::string with_hash(std::string text) {
  const auto at = text.find("\"hash\": \"") + 9;
  const auto hash = xxh3(text.substr(0, at) + text.substr(at + 16));
  return text.replace(at, 16, hash_hex(hash));
}

std::string edited(const std::string& from, const std::string& to) {
  auto text = to_text(example());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text = with_hash(text.replace(at, from.size(), to));
  return message_of([&] { manifest_from(text, "m"); });
}

TEST(ManifestText, OnlyTheKnownKeysAreAccepted) {
  EXPECT_EQ(edited("\"step\"", "\"step\""), "");
  EXPECT_EQ(edited("\"samples\": 803,\n", ""), "m: the key 'samples' is missing");
  EXPECT_EQ(edited("\"samples\": 803", "\"samples\": 803,\n\"more\": 1"), "m: unknown key 'more'");
  EXPECT_EQ(edited("\"offset\":0", "\"offset\":0,\"more\":1"), "m: unknown key 'more'");
  EXPECT_EQ(edited("\"samples\": 803", "\"samples\": 8.5"), "m: 'samples' is not a whole number");
  EXPECT_EQ(edited("\"seed\": 18446744073709551615", "\"seed\": -1"), "m: 'seed' is not a whole number");
  EXPECT_EQ(edited("\"codec\":\"planes\"", "\"codec\":\"lzma\""),
            "m: unknown codec 'lzma'; this program knows raw, zstd and planes");
  EXPECT_EQ(edited("\"dtype\":\"f64\"", "\"dtype\":\"f16\""),
            "m: a dtype is one of f64, f32, bf16, i32, u8, i16, not 'f16'");
  EXPECT_EQ(edited("\"shape\":[0]", "\"shape\":[0,0,0,0,0]"), "m: a tensor of 5 dims; the most is 4");
  EXPECT_EQ(edited("0123456789abcdef", "0123456789ABCDEF"), "m: 'hash_stored' is not 16 hexadecimal digits");
  EXPECT_TRUE(contains(edited("]\n}\n", "]\n}\n{}"), "m: "));
}

TEST(ManifestRules, BoxesTileTheirTensor) {
  EXPECT_EQ(problem_of([](Manifest& m) {
              m.tensors[0].pieces.pop_back();
              m.files.pop_back();
            }),
            "m: tensor adam_m/x: boxes hold 12 of the 24 elements of shape [4, 6]");
  EXPECT_EQ(problem_of([](Manifest& m) { m.tensors[0].pieces[1].box.begin[1] = 2; }),
            "m: tensor adam_m/x: boxes [0:4, 0:3] and [0:4, 2:6] overlap");
  EXPECT_EQ(problem_of([](Manifest& m) { m.tensors[0].pieces[1].box.end[1] = 7; }),
            "m: tensor adam_m/x: box [0:4, 3:7] is empty or outside the shape [4, 6]");
  EXPECT_EQ(problem_of([](Manifest& m) { m.tensors[1].pieces.push_back(m.tensors[1].pieces[0]); }),
            "m: tensor model/scale: one element is held by 2 boxes");
  EXPECT_EQ(problem_of([](Manifest& m) { m.tensors[0].pieces[0].encoded.raw_bytes = 24; }),
            "m: tensor adam_m/x, box [0:4, 0:3]: 24 raw bytes where 48 are expected");
}

TEST(ManifestRules, PiecesFillTheirFiles) {
  EXPECT_EQ(problem_of([](Manifest& m) { m.tensors[1].pieces[0].offset = 39; }),
            "m: file rank_00000.bin: tensor model/scale begins at byte 39 where 40 is expected");
  EXPECT_EQ(problem_of([](Manifest& m) { m.tensors[1].pieces[0].encoded.stored_bytes = 11; }),
            "m: file rank_00000.bin: tensor model/scale ends at byte 51 of 50");
  EXPECT_EQ(problem_of([](Manifest& m) { m.files[1].bytes = 31; }),
            "m: file rank_00001.bin: pieces fill 30 of its 31 bytes");
  EXPECT_EQ(problem_of([](Manifest& m) { m.tensors[1].pieces[0].file = "rank_00009.bin"; }),
            "m: tensor model/scale lies in 'rank_00009.bin', which is no file of the checkpoint");
  for (const std::string name : {"../rank", "", ".", "a/b", "manifest.json"})
    EXPECT_EQ(problem_of([&](Manifest& m) {
                m.files.insert(m.files.begin(), {name, 0});
              }),
              str("m: '", name, "' is not the name of a file in a folder"));
}

TEST(ManifestRules, NamesAscend) {
  EXPECT_TRUE(
      contains(problem_of([](Manifest& m) { std::swap(m.tensors[0], m.tensors[1]); }), "ascending order"));
  EXPECT_TRUE(
      contains(problem_of([](Manifest& m) { m.tensors.push_back(m.tensors.back()); }), "ascending order"));
  EXPECT_TRUE(
      contains(problem_of([](Manifest& m) { std::swap(m.files[0], m.files[1]); }), "ascending order"));
}

TEST(ManifestRules, FindsByName) {
  const auto manifest = example();
  EXPECT_EQ(manifest.find("model/scale"), &manifest.tensors[1]);
  for (const auto* name : {"", "a", "model/scal", "model/scales", "zz"})
    EXPECT_EQ(manifest.find(name), nullptr);
  EXPECT_EQ(manifest.stored_bytes(), 80);
  EXPECT_EQ(manifest.raw_bytes(), 4 * 6 * 4 + 8);
}

}  // namespace
}  // namespace fivefold::test
