// Box arithmetic against brute force over elements.
#include <map>
#include <random>
#include <set>

#include "checkpoint/tiling.h"
#include "tests/checkpoint/checkpoint_testing.h"

namespace fivefold::test {
namespace {

Shape random_shape(std::mt19937_64& random, int rank) {
  std::vector<std::int64_t> extents;
  for (int d = 0; d < rank; ++d) extents.push_back(1 + static_cast<std::int64_t>(random() % 8));
  return Shape(std::span<const std::int64_t>(extents));
}

// Often from the first or to the last index; empty in one dim of sixteen.
Box random_box(std::mt19937_64& random, const Shape& shape) {
  Box box = whole(shape);
  for (int d = 0; d < shape.rank(); ++d) {
    if (random() % 2)
      box.begin[d] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape[d]));
    const auto most = static_cast<std::uint64_t>(shape[d] - box.begin[d]);
    if (random() % 2) box.end[d] = box.begin[d] + 1 + static_cast<std::int64_t>(random() % most);
    if (random() % 16 == 0) box.end[d] = box.begin[d];
  }
  return box;
}

// Global index -> offset within the box.
std::map<std::int64_t, std::int64_t> elements(const Shape& shape, const Box& box) {
  std::map<std::int64_t, std::int64_t> found;
  for (std::int64_t i = 0; i < box.count(); ++i) found[global_index(shape, box, i)] = i;
  return found;
}

TEST(BoxRuns, CopyExactlyTheSharedElements) {
  std::mt19937_64 random(1);
  std::size_t shared = 0;
  for (int i = 0; i < 5000; ++i) {
    const Shape shape = random_shape(random, static_cast<int>(random() % 5));
    const Box from = random_box(random, shape), to = random_box(random, shape);
    const auto in_from = elements(shape, from), in_to = elements(shape, to);
    std::map<std::int64_t, std::int64_t> expected, found;  // offset in from -> offset in to
    for (const auto& [index, offset] : in_from)
      if (in_to.count(index)) expected[offset] = in_to.at(index);
    const BoxRuns runs(from, to);
    CopyRun last{-1, -1, 1};
    for (std::int64_t r = 0; r < runs.size(); ++r) {
      const auto run = runs[r];
      ASSERT_TRUE(run.count > 0 && run.from >= last.from + last.count && run.to >= last.to + last.count)
          << from << to;
      last = run;
      for (std::int64_t k = 0; k < run.count; ++k) found[run.from + k] = run.to + k;
    }
    ASSERT_EQ(found, expected) << shape << " " << from << " " << to;
    shared += expected.size();
  }
  EXPECT_GT(shared, 15000u);
}

TEST(BoxRuns, AreAsLongAsPossible) {
  EXPECT_EQ(BoxRuns(whole({8, 6}), whole({8, 6})).size(), 1);
  EXPECT_EQ(BoxRuns(whole({8, 6}), {{2, 0}, {5, 6}}).size(), 1);
  EXPECT_EQ(BoxRuns(whole({8, 6}), {{2, 1}, {5, 6}}).size(), 3);
  EXPECT_EQ(BoxRuns(whole({4, 8, 6}), {{1, 2, 0}, {3, 5, 6}}).size(), 2);
  EXPECT_EQ(BoxRuns(whole({}), whole({})).size(), 1);
  EXPECT_EQ(BoxRuns(whole({8}), {{3}, {3}}).size(), 0);
}

TEST(SplitBox, PartsTileInOrderAndAreContiguous) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    const Shape shape = random_shape(random, static_cast<int>(random() % 5));
    const Box box = random_box(random, shape);
    const auto limit = static_cast<std::int64_t>(1 + random() % 30);
    const auto inside = elements(shape, box);
    std::int64_t next = 0;
    for (const Box& part : split_box(box, limit)) {
      ASSERT_LE(part.count(), limit);
      for (const auto& [index, offset] : elements(shape, part)) {
        ASSERT_EQ(inside.at(index), next + offset) << box << " " << part;
      }
      next += part.count();
    }
    ASSERT_EQ(next, box.count());
  }
}

TEST(Tiling, AgreesWithCountingEveryElement) {
  std::mt19937_64 random(3);
  int tilings = 0;
  for (int i = 0; i < 4000; ++i) {
    const Shape shape = random_shape(random, 1 + static_cast<int>(random() % 3));
    std::vector<Box> boxes = split_box(whole(shape), static_cast<std::int64_t>(1 + random() % 6));
    std::shuffle(boxes.begin(), boxes.end(), random);
    if (random() % 2) boxes[random() % boxes.size()] = random_box(random, shape);
    std::map<std::int64_t, int> times;
    bool empty = false;
    for (const auto& box : boxes) {
      empty = empty || box.count() == 0;
      for (const auto& [index, offset] : elements(shape, box)) ++times[index];
    }
    bool tiles = !empty && static_cast<std::int64_t>(times.size()) == shape.count();
    for (const auto& [index, n] : times) tiles = tiles && n == 1;
    ASSERT_EQ(!tiling_problem(shape, boxes), tiles) << shape;
    tilings += tiles;
  }
  EXPECT_GT(tilings, 1000);
  EXPECT_FALSE(tiling_problem({0}, {}));
  EXPECT_TRUE(tiling_problem({}, {}));
}

// The lowest position that holds a box writes it, with every kind of cut and with a table on two stages.
TEST(WritesBox, ExactlyOnePositionPerDistinctBox) {
  const std::vector<MeshShape> shapes = {{},
                                         {.tp = 4},
                                         {.pp = 2, .shard = 2, .tp = 2},
                                         {.replicate = 2, .shard = 3},
                                         {.pp = 3, .cp = 2, .tp = 2},
                                         {.pp = 2, .replicate = 2, .shard = 2, .tp = 2, .ep = 4}};
  for (const auto& shape : shapes) {
    std::map<std::string, std::vector<Box>> written;
    std::map<std::string, Shape> globals;
    for (int position = 0; position < shape.world(); ++position)
      for (const auto& part : parts_at(shape, position)) {
        globals[part.name] = part.global;
        if (part.owned) written[part.name].push_back(part.box);
      }
    for (const auto& [name, global] : globals)
      EXPECT_EQ(tiling_problem(global, written[name]), std::nullopt) << name << " " << to_string(shape);
  }
}

TEST(PlanReads, TouchesOnlyWhatIsShared) {
  FaultyFileSystem fs;
  const auto dir = save_as(fs, "/c", 1, {.shard = 4}, "salt").dir;
  const auto manifest = read_manifest(fs, dir);
  const std::vector<LocalTensor> wanted{{"model/embedding", {11, 5}, {{3, 0}, {7, 5}}, {}},
                                        {"model/unknown", {1}, whole({1}), {}}};
  const auto reads = plan_reads(manifest, wanted);
  ASSERT_EQ(reads.size(), 2u);  // shards of three rows: [3, 6) and [6, 9)
  EXPECT_EQ(reads[0].piece->box, (Box{{3, 0}, {6, 5}}));
  EXPECT_EQ(reads[1].piece->box, (Box{{6, 0}, {9, 5}}));
  std::string last;
  std::int64_t offset = -1;
  for (const auto& read : all_reads(manifest)) {
    ASSERT_TRUE(std::pair(read.piece->file, read.piece->offset) > std::pair(last, offset));
    last = read.piece->file;
    offset = read.piece->offset;
  }
}

}  // namespace
}  // namespace fivefold::test
