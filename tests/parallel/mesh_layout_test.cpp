// Coordinates and groups of both views against a brute-force reading of their definition, and the refusal of
// bad meshes.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>

#include "parallel/mesh/mesh.h"

namespace fivefold {
namespace {

const std::vector<Axis> kDenseView{Axis::pp, Axis::replicate, Axis::shard, Axis::cp, Axis::tp};
const std::vector<Axis> kSparseView{Axis::pp, Axis::replicate, Axis::edp, Axis::ep};

std::vector<MeshShape> shapes() {
  std::vector<MeshShape> all;
  for (const int pp : {1, 2, 3})
    for (const int replicate : {1, 2})
      for (const int shard : {1, 2, 3})
        for (const int cp : {1, 2})
          for (const int tp : {1, 2, 4})
            for (int ep = 1; ep <= shard * cp * tp; ++ep)
              if (shard * cp * tp % ep == 0) all.push_back({pp, replicate, shard, cp, tp, ep});
  return all;
}

// The position as a number in mixed radix, last axis fastest, is what defines the coordinates.
int position_of(const MeshShape& shape, const std::vector<Axis>& view, const std::vector<int>& coordinates) {
  int position = 0;
  for (std::size_t i = 0; i < view.size(); ++i) position = position * shape.size(view[i]) + coordinates[i];
  return position;
}

TEST(MeshLayoutTest, CoordinatesAreMixedRadixDigits) {
  for (const auto& shape : shapes()) {
    const MeshLayout layout(shape);
    for (int p = 0; p < shape.world(); ++p)
      for (const auto* view : {&kDenseView, &kSparseView}) {
        std::vector<int> coordinates;
        for (const auto axis : *view) {
          coordinates.push_back(layout.coordinate(p, axis));
          ASSERT_LT(coordinates.back(), shape.size(axis));
        }
        ASSERT_EQ(position_of(shape, *view, coordinates), p) << to_string(shape);
      }
  }
}

std::vector<int> brute_force_group(const MeshLayout& layout, const std::vector<Axis>& view, int position,
                                   std::vector<Axis> over) {
  std::vector<std::pair<int, int>> found;  // combined coordinate, position
  for (int p = 0; p < layout.shape().world(); ++p) {
    bool same = true;
    for (const auto axis : view)
      if (std::find(over.begin(), over.end(), axis) == over.end())
        same = same && layout.coordinate(p, axis) == layout.coordinate(position, axis);
    if (same) found.emplace_back(layout.coordinate(p, over), p);
  }
  std::sort(found.begin(), found.end());
  std::vector<int> members;
  for (const auto& [coordinate, p] : found) members.push_back(p);
  return members;
}

TEST(MeshLayoutTest, GroupsMatchTheirDefinition) {
  std::mt19937 random(3);
  for (const auto& shape : shapes()) {
    const MeshLayout layout(shape);
    for (const auto* view : {&kDenseView, &kSparseView}) {
      std::vector<Axis> over;
      for (const auto axis : *view)
        if (random() % 2) over.push_back(axis);
      std::shuffle(over.begin(), over.end(), random);
      for (int p = 0; p < shape.world(); ++p) {
        const auto members = layout.group(p, over);
        ASSERT_EQ(members, brute_force_group(layout, *view, p, over)) << to_string(shape);
        ASSERT_EQ(static_cast<int>(members.size()), layout.size(over));
        ASSERT_EQ(members[static_cast<std::size_t>(layout.coordinate(p, over))], p);
      }
    }
  }
}

TEST(MeshLayoutTest, ViewsDoNotMixAndAxesAreNamedOnce) {
  const MeshLayout layout({1, 1, 2, 2, 2, 4});
  EXPECT_THROW(layout.group(0, std::vector{Axis::tp, Axis::ep}), Error);
  EXPECT_THROW(layout.group(0, std::vector{Axis::tp, Axis::tp}), Error);
  EXPECT_EQ(layout.group(5, std::vector<Axis>{}), std::vector<int>{5});
}

// A plan for 100,000 ranks takes seconds: groups cost their own size, not the world's.
TEST(MeshLayoutTest, AHundredThousandPositionsAreFast) {
  const MeshLayout layout({10, 5, 25, 10, 8, 8});
  const auto start = std::chrono::steady_clock::now();
  std::int64_t members = 0;
  for (int p = 0; p < layout.shape().world(); ++p)
    for (const auto& over :
         {std::vector{Axis::tp}, std::vector{Axis::shard, Axis::cp}, std::vector{Axis::ep}})
      members += static_cast<std::int64_t>(layout.group(p, over).size());
  EXPECT_EQ(members, 100'000 * (8 + 250 + 8));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

std::string refusal(const MeshShape& shape, int world) {
  try {
    check_mesh(shape, world);
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

void expect_refusal(const MeshShape& shape, int world, const std::vector<std::string>& parts) {
  const auto text = refusal(shape, world);
  for (const auto& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in '" << text << "'";
}

TEST(CheckMesh, AcceptsWhatFits) {
  for (const auto& shape : shapes()) EXPECT_EQ(refusal(shape, shape.world()), "");
}

TEST(CheckMesh, NamesTheDegreesTheWorldAndTheNearestMesh) {
  expect_refusal({2, 1, 2, 1, 3, 1}, 8,
                 {"pp 2 x replicate 1 x shard 2 x cp 1 x tp 3 = 12", "8 ranks", "nearest",
                  "pp 2 x replicate 1 x shard 2 x cp 1 x tp 2"});
  expect_refusal({1, 1, 3, 1, 1, 1}, 4, {"= 3", "there are 4 ranks", "shard 4 x cp 1 x tp 1"});
  // One changed degree is nearer than two, and ep goes on dividing shard x cp x tp.
  expect_refusal({2, 1, 4, 1, 1, 4}, 16, {"pp 2 x replicate 1 x shard 8 x cp 1 x tp 1", "= 8"});
  expect_refusal({1, 1, 7, 1, 1, 1}, 1, {"shard 1 x cp 1 x tp 1"});
  expect_refusal({1 << 30, 1 << 30, 1 << 30, 4, 4, 1}, 16, {"more than 2^31", "16 ranks"});
}

// The suggestion of every wrong mesh is itself accepted.
TEST(CheckMesh, SuggestsMeshesThatFit) {
  for (int world = 1; world <= 24; ++world)
    for (const int tp : {1, 2, 3, 5, 8})
      for (const int pp : {1, 2, 3}) {
        const MeshShape shape{pp, 1, 2, 1, tp, 2};
        const auto text = refusal(shape, world);
        if (text.empty()) continue;
        MeshShape other;
        const auto at = text.find("that fits is ");
        ASSERT_NE(at, std::string::npos) << text;
        if (text.find("multiply") == std::string::npos) continue;
        ASSERT_EQ(
            std::sscanf(text.c_str() + at, "that fits is pp %d x replicate %d x shard %d x cp %d x tp %d",
                        &other.pp, &other.replicate, &other.shard, &other.cp, &other.tp),
            5)
            << text;
        EXPECT_EQ(refusal(other, world), "") << text;
        if (world % 2 == 0) {
          EXPECT_EQ(other.shard * other.cp * other.tp % 2, 0) << text;
        }
      }
}

// B49: ep that does not divide, and ep above the ranks there are.
TEST(CheckMesh, NamesTheNearestExpertDegrees) {
  expect_refusal({1, 1, 4, 1, 3, 5}, 12,
                 {"ep is 5", "shard 4 x cp 1 x tp 3 = 12", "nearest ep that fits is 4 or 6"});
  expect_refusal({1, 1, 4, 1, 3, 24}, 12, {"ep is 24", "nearest ep that fits is 12"});
  expect_refusal({1, 0, 1, 1, 1, 1}, 1, {"parallel.replicate is 0", "at least 1"});
  expect_refusal({1, 1, 1, 1, 1, -2}, 1, {"parallel.ep is -2"});
}

TEST(CheckMesh, SuggestsForLargeWorldsInTime) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(refusal({8, 3, 8, 4, 8, 8}, 98'280), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

// B83: ranks are ordered by (host, local rank) as gathered, whatever the launcher's numbering.
TEST(OrderRanks, FollowsHostsAndLocalRanks) {
  EXPECT_EQ(order_ranks({{"B", 0}, {"A", 0}, {"B", 1}, {"A", 1}}), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(order_ranks({{"A", 1}, {"A", 0}, {"B", 1}, {"B", 0}}), (std::vector<int>{1, 0, 3, 2}));
  EXPECT_EQ(order_ranks({{"A", 0}, {"A", 0}}), (std::vector<int>{0, 1}));
}

// However ranks of 3 hosts are numbered, every tp group of 4 lies within one host and consists of the same
// processes.
TEST(OrderRanks, DoesNotDependOnTheNumbering) {
  std::mt19937 random(11);
  std::vector<HostSlot> slots;
  for (const auto* host : {"n1", "n2", "n3"})
    for (int local = 0; local < 8; ++local) slots.push_back({host, local});
  for (int round = 0; round < 50; ++round) {
    std::shuffle(slots.begin(), slots.end(), random);
    const auto ranks = order_ranks(slots);
    ASSERT_EQ(std::set<int>(ranks.begin(), ranks.end()).size(), 24u);
    for (std::size_t p = 0; p < 24; ++p) {
      const auto& slot = slots[static_cast<std::size_t>(ranks[p])];
      EXPECT_EQ(slot.host, slots[static_cast<std::size_t>(ranks[p / 8 * 8])].host);
      EXPECT_EQ(slot.local_rank, static_cast<int>(p % 8));
    }
  }
}

}  // namespace
}  // namespace fivefold
