// Saving under one layout and loading under another, bit for bit.
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

struct Layout {
  const char* name;
  MeshShape shape;
};
const std::vector<Layout> kLayouts = {
    {"one", {}},
    {"tp2", {.tp = 2}},
    {"tp4", {.tp = 4}},  // more tp ranks than kv heads
    {"shard3", {.shard = 3}},
    {"shard8", {.shard = 8}},  // more ranks than rows of some tensors
    {"replicate2_shard2", {.replicate = 2, .shard = 2}},
    {"pp2", {.pp = 2}},
    {"pp3_tp2", {.pp = 3, .tp = 2}},  // five layers over three stages
    {"cp2_tp2", {.cp = 2, .tp = 2}},
    {"pp2_shard2_tp2", {.pp = 2, .shard = 2, .tp = 2}},
    {"pp2_cp2_tp2_ep2", {.pp = 2, .cp = 2, .tp = 2, .ep = 2}},
    {"shard2_ep2", {.shard = 2, .ep = 2}},
    {"shard4_ep4", {.shard = 4, .ep = 4}},
    {"replicate2_shard2_ep2", {.replicate = 2, .shard = 2, .ep = 2}},
};

// B67: every pair, growing and shrinking, uneven parts, kv replicas, tied table on two stages.
TEST(SaveLoad, EveryLayoutLoadsEveryOther) {
  FaultyFileSystem fs;
  std::int64_t step = 1;
  for (const auto& from : kLayouts) {
    const auto saved = save_as(fs, "/run/checkpoints", step, from.shape, from.name, {.piece_bytes = 100});
    EXPECT_EQ(saved.dir, Path("/run/checkpoints") / step_dir_name(step));
    for (const auto& to : kLayouts)
      EXPECT_EQ(wrong_after_load(fs, saved.dir, to.shape, from.name), 0)
          << "saved as " << from.name << ", loaded as " << to.name;
    ++step;
  }
}

// B67: the order in which a rank names its tensors must not matter; nor the compression.
TEST(SaveLoad, OrderOfTensorsAndCompressionDoNotMatter) {
  FaultyFileSystem fs;
  std::int64_t step = 1;
  for (const auto compression : {Compression::none, Compression::fast, Compression::small}) {
    run_ranks(2, [&](Transport& transport) {
      auto parts = parts_at({.shard = 2}, transport.world().rank());
      fill(parts, "salt");
      std::reverse(parts.begin(), parts.end());
      save(fs, "/c", state_at(step), parts, transport.world(), {.compression = compression});
    });
    EXPECT_EQ(wrong_after_load(fs, Path("/c") / step_dir_name(step++), {.tp = 2}, "salt"), 0);
  }
}

// B64: the run's position comes back with the tensors; moments are neither dropped nor rounded.
TEST(SaveLoad, StateComesBackOnEveryRank) {
  FaultyFileSystem fs;
  const auto saved = save_as(fs, "/c", 1000, {.shard = 2}, "salt");
  run_ranks(3, [&](Transport& transport) {
    auto parts = parts_at({.shard = 3}, transport.world().rank());
    const auto loaded = load(fs, saved.dir, parts, transport.world());
    EXPECT_EQ(loaded.state, state_at(1000));
    EXPECT_EQ(loaded.hash, saved.hash);
    EXPECT_EQ(loaded.dir, saved.dir);
    EXPECT_TRUE(loaded.missing.empty());
  });
}

TEST(SaveLoad, WritesOnlyWhatARankOwnsOnce) {
  FaultyFileSystem fs;
  const auto saved = save_as(fs, "/c", 1, {.replicate = 2, .tp = 2}, "salt");
  std::int64_t bytes = 0;
  for (const auto& tensor : small_model({})) bytes += tensor.global.count() * size_of(tensor.dtype);
  EXPECT_EQ(saved.raw_bytes, bytes);
  EXPECT_EQ(fs.kind(saved.dir / "rank_00001.bin"), PathKind::file);
  EXPECT_EQ(fs.kind(saved.dir / "rank_00002.bin"), PathKind::none);  // a replica owns nothing
}

// A box that two ranks own, or none, is a fault of the program and no checkpoint.
TEST(SaveLoad, BoxesOwnedTwiceOrNeverAreRefused) {
  for (const bool owned : {true, false}) {
    FaultyFileSystem fs;
    const auto message = message_of([&] {
      run_ranks(2, [&](Transport& transport) {
        auto parts = parts_at({.replicate = 2}, transport.world().rank());
        fill(parts, "salt");
        parts.front().owned = owned;
        save(fs, "/c", state_at(1), parts, transport.world());
      });
    });
    EXPECT_TRUE(contains(message, "model/embedding")) << message;
    EXPECT_TRUE(contains(message, owned ? "overlap" : "boxes hold 0 of the 55 elements")) << message;
    EXPECT_TRUE(list_steps(fs, "/c").empty());
    EXPECT_TRUE(fs.list("/c").empty());
  }
}

std::string load_message(FileSystem& fs, const Path& dir, const LoadOptions& options,
                         const std::function<void(std::vector<LocalTensor>&)>& change) {
  return message_of([&] {
    run_ranks(2, [&](Transport& transport) {
      auto parts = parts_at({.pp = 2}, transport.world().rank());
      change(parts);
      load(fs, dir, parts, transport.world(), options);
    });
  });
}

void drop(std::vector<LocalTensor>& parts, const std::string& name) {
  std::erase_if(parts, [&](const LocalTensor& part) { return part.name == name; });
}
void rename(std::vector<LocalTensor>& parts, const std::string& from, const std::string& to) {
  for (auto& part : parts)
    if (part.name == from) part.name = to;
}

// B65: names match in both directions over all ranks together, or are listed.
TEST(SaveLoad, NamesMatchBothWays) {
  FaultyFileSystem fs;
  const auto dir = save_as(fs, "/c", 1, {.shard = 2}, "salt").dir;
  EXPECT_EQ(load_message(fs, dir, {}, [](auto&) {}),
            "");  // a tensor that lies on one stage only is not unexpected
  const auto unexpected = load_message(fs, dir, {}, [](auto& parts) { drop(parts, "model/final_norm"); });
  EXPECT_TRUE(contains(unexpected, "the model lacks model/final_norm")) << unexpected;
  const auto missing =
      load_message(fs, dir, {}, [](auto& parts) { rename(parts, "model/balance", "model/new"); });
  EXPECT_TRUE(contains(missing, "it lacks model/new; the model lacks model/balance")) << missing;
  const auto allowed = load_message(fs, dir, {.allow_missing = {"model/new", "model/balance"}},
                                    [](auto& parts) { rename(parts, "model/balance", "model/new"); });
  EXPECT_EQ(allowed, "");
  const auto unknown = load_message(fs, dir, {.allow_missing = {"model/blance"}}, [](auto&) {});
  EXPECT_TRUE(contains(unknown, "'model/blance'") && contains(unknown, "the nearest is 'model/balance'"))
      << unknown;
}

TEST(SaveLoad, MissingTensorsKeepTheirValues) {
  FaultyFileSystem fs;
  const auto dir = save_as(fs, "/c", 1, {}, "salt").dir;
  auto parts = parts_at({}, 0);
  rename(parts, "model/balance", "model/new");
  fill(parts, "before");
  const auto loaded = load(fs, dir, parts, {.allow_missing = {"model/new", "model/balance"}});
  EXPECT_EQ(loaded.missing, std::vector<std::string>{"model/new"});
  for (const auto& part : parts)
    EXPECT_EQ(wrong_elements({part}, part.name == "model/new" ? "before" : "salt"), 0) << part.name;
}

TEST(SaveLoad, AnotherModelIsRefusedWithItsShapes) {
  FaultyFileSystem fs;
  const auto dir = save_as(fs, "/c", 1, {}, "salt").dir;
  const auto message = load_message(fs, dir, {}, [](auto& parts) {
    for (auto& part : parts)
      if (part.name == "model/final_norm") part = {part.name, {6}, whole({6}), host_tensor({6}, DType::f32)};
  });
  EXPECT_TRUE(contains(message, "model/final_norm has shape [5] in the checkpoint and [6] in this model"))
      << message;
}

TEST(SaveLoad, PrefixesTakeAPart) {
  FaultyFileSystem fs;
  const auto dir = save_as(fs, "/c", 1, {}, "salt").dir;
  auto parts = parts_at({}, 0);
  std::erase_if(parts, [](const LocalTensor& part) { return !part.name.starts_with("model/blocks.3."); });
  load(fs, dir, parts, {.prefixes = {"model/blocks.3."}});
  EXPECT_EQ(wrong_elements(parts, "salt"), 0);
  EXPECT_TRUE(contains(message_of([&] { load(fs, dir, parts); }), "the model lacks"));
}

TEST(SaveLoad, DtypesConvertOnlyWhenAsked) {
  FaultyFileSystem fs;
  std::vector<LocalTensor> parts{{"model/x", {300}, whole({300}), host_tensor({300}, DType::f32)}};
  for (int i = 0; i < 300; ++i) parts[0].data.data<float>()[i] = static_cast<float>(i) * 1.37f;
  run_ranks(1, [&](Transport& transport) { save(fs, "/c", state_at(1), parts, transport.world()); });
  const Path dir = "/c/step_00000001";
  for (const auto dtype : {DType::f64, DType::bf16}) {
    std::vector<LocalTensor> wanted{{"model/x", {300}, {{7}, {205}}, host_tensor({198}, dtype)}};
    EXPECT_TRUE(contains(message_of([&] { load(fs, dir, wanted); }), "conversion was not asked for"));
    load(fs, dir, wanted, {.convert = true});
    for (int i = 0; i < 198; ++i) {
      const float original = static_cast<float>(i + 7) * 1.37f;
      if (dtype == DType::f64)
        ASSERT_EQ(wanted[0].data.data<double>()[i], static_cast<double>(original));
      else
        ASSERT_EQ(wanted[0].data.data<bf16>()[i].bits, bf16(original).bits);
    }
  }
  std::vector<LocalTensor> whole_numbers{{"model/x", {300}, whole({300}), host_tensor({300}, DType::i32)}};
  EXPECT_TRUE(
      contains(message_of([&] { load(fs, dir, whole_numbers, {.convert = true}); }), "model/x is f32"));
}

// B72: rank 0's choice holds for all, and a rank that sees something else under that path says so.
TEST(SaveLoad, EveryRankSeesTheSameCheckpoint) {
  FaultyFileSystem shared, own;
  save_as(shared, "/c", 1, {.shard = 2}, "salt");
  const auto attempt = [&] {
    return message_of([&] {
      run_ranks(2, [&](Transport& transport) {
        const bool first = transport.world().rank() == 0;
        auto parts = parts_at({.shard = 2}, transport.world().rank());
        load(first ? shared : own, first ? "/c/step_00000001" : "/elsewhere", parts, transport.world());
      });
    });
  };
  EXPECT_TRUE(contains(attempt(), "failed on rank 1: this rank does not see /c/step_00000001/manifest.json"))
      << attempt();
  save_as(own, "/c", 1, {.shard = 2}, "other");
  EXPECT_TRUE(contains(attempt(), "this rank sees another checkpoint")) << attempt();
}

TEST(SaveLoad, AcceptRefusesBeforeAnyTensorIsRead) {
  FaultyFileSystem fs;
  const auto dir = save_as(fs, "/c", 1, {}, "salt").dir;
  auto parts = parts_at({}, 0);
  fill(parts, "before");
  const LoadOptions options{
      .accept = [](const RunState& state) { throw UserError(str("seed ", state.seed)); }};
  EXPECT_EQ(message_of([&] { load(fs, dir, parts, options); }), "seed 1234");
  EXPECT_EQ(wrong_elements(parts, "before"), 0);
}

}  // namespace
}  // namespace fivefold::test
