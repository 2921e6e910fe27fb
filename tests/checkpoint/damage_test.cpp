// Checkpoints that changed after they were written: every change is noticed, by loading and by verifying
// alike.
#include <random>

#include "checkpoint/build.h"
#include "checkpoint/verify.h"
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

const Path kRoot = "/c", kDir = "/c/step_00000001", kFile = kDir / "rank_00000.bin",
           kManifest = kDir / kManifestName;

std::string load_problem(FileSystem& fs) {
  auto parts = parts_at({}, 0);
  return message_of([&] { load(fs, kDir, parts); });
}

std::string flipped(std::string bytes, std::size_t bit) {
  bytes.at(bit / 8) = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  return bytes;
}

// B59: refused before any tensor is touched, with the file, what it should have and what it has.
TEST(Damage, AFileOfAnotherSizeIsRefused) {
  FaultyFileSystem fs;
  save_as(fs, kRoot, 1, {}, "salt");
  const auto whole = fs.bytes(kFile);
  const auto with_more = [&](std::size_t n) { return whole + std::string(n, 'x'); };
  for (const std::string& bytes : {whole.substr(0, whole.size() - 1), whole.substr(0, whole.size() - 512),
                                   std::string(), with_more(1), with_more(4096)}) {
    fs.set_bytes(kFile, bytes);
    auto parts = parts_at({}, 0);
    fill(parts, "before");
    const auto message = message_of([&] { load(fs, kDir, parts); });
    EXPECT_EQ(message, str("/c/step_00000001/rank_00000.bin has ", bytes.size(), " bytes where ",
                           whole.size(), " are expected"));
    EXPECT_EQ(verify_checkpoint(fs, kDir), std::vector<std::string>{message});
    EXPECT_EQ(wrong_elements(parts, "before"), 0);
  }
  fs.remove(kFile);
  EXPECT_TRUE(contains(load_problem(fs), "rank_00000.bin is missing")) << load_problem(fs);
}

// B60: random bits of data, block headers and manifest, under every codec; B62: load and verify agree.
TEST(Damage, EveryFlippedBitIsNoticed) {
  std::mt19937_64 random(20260718);
  for (const auto compression : {Compression::none, Compression::fast, Compression::small}) {
    FaultyFileSystem fs;
    save_as(fs, kRoot, 1, {}, "salt", {.compression = compression});
    for (const auto& path : {kFile, kManifest}) {
      const auto whole = fs.bytes(path);
      int noticed = 0;
      for (int i = 0; i < 64; ++i) {
        fs.set_bytes(path, flipped(whole, random() % (whole.size() * 8)));
        noticed += !load_problem(fs).empty() && !verify_checkpoint(fs, kDir).empty();
      }
      EXPECT_EQ(noticed, 64) << path << ", compression " << name_of(compression);
      fs.set_bytes(path, whole);
    }
    EXPECT_EQ(load_problem(fs), "");
  }
}

// B60: every single bit of a small piece, its block header included.
TEST(Damage, EveryBitOfAPieceCounts) {
  FaultyFileSystem fs;
  std::vector<LocalTensor> parts{{"model/x", {40}, whole({40}), host_tensor({40}, DType::f32)}};
  for (int i = 0; i < 40; ++i) parts[0].data.data<float>()[i] = 1.0f + static_cast<float>(i) / 64;
  run_ranks(1, [&](Transport& transport) { save(fs, kRoot, state_at(1), parts, transport.world()); });
  const auto bytes = fs.bytes(kFile);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    fs.set_bytes(kFile, flipped(bytes, bit));
    const auto message = message_of([&] { load(fs, kDir, parts); });
    ASSERT_TRUE(contains(message, "/c/step_00000001/rank_00000.bin: tensor model/x, box [0:40]: "))
        << bit << ": " << message;
  }
}

// B60: stored bytes that are as they were but decode to something else, as another version of a decoder might
// do.
TEST(Damage, TheDecodedBytesAreComparedToo) {
  FaultyFileSystem fs;
  save_as(fs, kRoot, 1, {}, "salt");
  auto manifest = read_manifest(fs, kDir);
  manifest.tensors.back().pieces.back().encoded.hash_raw ^= 1;
  fs.set_bytes(kManifest, to_text(manifest));
  EXPECT_TRUE(contains(load_problem(fs), "the hash of its raw bytes is ")) << load_problem(fs);
}

// B62: whatever follows the manifest or precedes it is no manifest.
TEST(Damage, TrailingBytesOfAManifestAreRefused) {
  FaultyFileSystem fs;
  save_as(fs, kRoot, 1, {}, "salt");
  const auto text = fs.bytes(kManifest);
  for (const auto& changed :
       {text + "\n", text + " ", text.substr(0, text.size() - 1), " " + text, std::string()}) {
    fs.set_bytes(kManifest, changed);
    EXPECT_TRUE(contains(load_problem(fs), "manifest.json: ")) << load_problem(fs);
    EXPECT_FALSE(verify_checkpoint(fs, kDir).empty());
  }
}

// A broken newest checkpoint is passed over with the reason, whether its size shows it or only its content.
TEST(Damage, TheNewestWholeCheckpointIsLoaded) {
  FaultyFileSystem fs;
  for (int step = 1; step <= 4; ++step) save_as(fs, kRoot, step, {}, str("salt", step));
  fs.set_bytes("/c/step_00000004/rank_00000.bin", "short");
  const auto third = fs.bytes("/c/step_00000003/rank_00000.bin");
  fs.set_bytes("/c/step_00000003/rank_00000.bin", flipped(third, third.size() * 4));
  run_ranks(2, [&](Transport& transport) {
    auto parts = parts_at({.shard = 2}, transport.world().rank());
    std::vector<std::string> warnings;
    const auto loaded = load_newest(fs, kRoot, parts, transport.world(), {},
                                    [&](const std::string& text) { warnings.push_back(text); });
    EXPECT_EQ(loaded->state.step, 2);
    EXPECT_EQ(wrong_elements(parts, "salt2"), 0);
    EXPECT_EQ(warnings.size(), transport.world().rank() == 0 ? 2u : 0u);
    for (const auto& text : warnings) EXPECT_TRUE(contains(text, "passed over /c/step_0000000")) << text;
  });
}

// Going back to an older checkpoint that lacks a tensor would leave it as the broken one filled it.
TEST(Damage, AnOlderCheckpointMustReplaceEverything) {
  FaultyFileSystem fs;
  const auto without = [](std::vector<LocalTensor> parts) {
    std::erase_if(parts, [](const LocalTensor& part) { return part.name == "model/scale"; });
    return parts;
  };
  run_ranks(1, [&](Transport& transport) {
    auto parts = parts_at({}, 0);
    fill(parts, "salt");
    save(fs, kRoot, state_at(1), without(parts), transport.world());
    save(fs, kRoot, state_at(2), parts, transport.world());
    const Path newest = "/c/step_00000002/rank_00000.bin";
    fs.set_bytes(newest, flipped(fs.bytes(newest), 999));
    const LoadOptions options{.allow_missing = {"model/scale"}};
    const auto message = message_of(
        [&] { load_newest(fs, kRoot, parts, transport.world(), options, [](const std::string&) {}); });
    EXPECT_TRUE(contains(message, "lacks model/scale and cannot take its place")) << message;
  });
}

// B55: with only broken ones a run does not start over by itself; with none at all it does.
TEST(Damage, OnlyBrokenCheckpointsAreAnError) {
  FaultyFileSystem fs;
  const auto newest = [&] {
    return message_of([&] {
      run_ranks(2, [&](Transport& transport) {
        auto parts = parts_at({.shard = 2}, transport.world().rank());
        if (!load_newest(fs, kRoot, parts, transport.world(), {}, [](const std::string&) {}))
          throw Error("nothing");
      });
    });
  };
  EXPECT_TRUE(contains(newest(), "nothing"));
  save_as(fs, kRoot, 1, {}, "salt");
  const auto bytes = fs.bytes(kFile);
  fs.set_bytes(kFile, flipped(bytes, 999));
  EXPECT_TRUE(contains(newest(), "no checkpoint in /c is whole: ")) << newest();
  fs.remove(kManifest);
  EXPECT_TRUE(contains(newest(), "no checkpoint in /c is complete (step_00000001: ")) << newest();
}

// B62: rewriting a damaged checkpoint does not launder it.
TEST(Damage, ReshardRefusesDamage) {
  FaultyFileSystem fs;
  save_as(fs, kRoot, 1, {}, "salt");
  fs.set_bytes(kFile, flipped(fs.bytes(kFile), 4321));
  EXPECT_TRUE(
      contains(message_of([&] { reshard(fs, kDir, "/d/step_00000001", 2); }), "rank_00000.bin: tensor "));
  EXPECT_TRUE(fs.list("/d").empty());
}

}  // namespace
}  // namespace fivefold::test
