// Checkpoints written long ago stay readable: tests/fixtures/checkpoint was written by the first version of
// the format and is never written again.
#include "checkpoint/build.h"
#include "checkpoint/verify.h"
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

// What is in it: the small model's tensors in their odd bits, and two that compress.
std::vector<LocalTensor> fixture_tensors() {
  auto parts = parts_at({}, 0);
  fill(parts, "fixture");
  const auto ramp = host_tensor({64, 32}, DType::f32), steps = host_tensor({500}, DType::i32);
  for (std::int64_t i = 0; i < ramp.count(); ++i) ramp.data<float>()[i] = static_cast<float>(i) / 1024;
  for (std::int64_t i = 0; i < steps.count(); ++i)
    steps.data<std::int32_t>()[i] = static_cast<std::int32_t>(i / 10);
  parts.push_back({"model/ramp", ramp.shape(), whole(ramp.shape()), ramp});
  parts.push_back({"model/steps", steps.shape(), whole(steps.shape()), steps});
  return parts;
}

TEST(Format, FixturesOfVersionOneLoad) {
  PosixFileSystem fs;
  for (const std::string name : {"raw", "compressed"}) {
    const Path dir = Path(FIVEFOLD_FIXTURES) / "checkpoint" / name / "step_00000007";
    EXPECT_EQ(verify_checkpoint(fs, dir), std::vector<std::string>{});
    const auto expected = fixture_tensors();
    auto found = fixture_tensors();
    for (auto& part : found) std::memset(part.data.raw(), 0, static_cast<std::size_t>(part.data.bytes()));
    const auto loaded = load(fs, dir, found);
    EXPECT_EQ(loaded.state, state_at(7));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(std::memcmp(found[i].data.raw(), expected[i].data.raw(),
                            static_cast<std::size_t>(expected[i].data.bytes())),
                0)
          << expected[i].name;
  }
}

// The uncompressed form does not depend on a compressor's version: today's writer gives the same bytes.
TEST(Format, TheRawFixtureIsWrittenAlike) {
  PosixFileSystem posix;
  FaultyFileSystem fs;
  run_ranks(1, [&](Transport& transport) {
    save(fs, "/c", state_at(7), fixture_tensors(), transport.world(),
         {.compression = Compression::none, .piece_bytes = 3000});
  });
  const Path dir = Path(FIVEFOLD_FIXTURES) / "checkpoint" / "raw" / "step_00000007";
  for (const auto* name : {"manifest.json", "rank_00000.bin"})
    EXPECT_EQ(fs.bytes(Path("/c/step_00000007") / name), read_text(posix, dir / name)) << name;
}

}  // namespace
}  // namespace fivefold::test
