// Boxes against their definition: they tile the tensor, have one owner, and replicas are who shares a
// gradient.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "parallel/mesh/partition.h"

namespace fivefold {
namespace {

const PartitionSpec kWhole;

std::vector<std::int64_t> extents(std::int64_t rows, const Cut& cut, int tp) {
  const MeshLayout mesh({1, 1, 1, 1, tp, 1});
  std::vector<std::int64_t> all;
  for (int p = 0; p < tp; ++p) all.push_back(box_of({rows}, kWhole.with(0, cut), mesh, p).count());
  return all;
}

// B28: sizes that do not divide give short and empty trailing parts, never other totals.
TEST(BoxOf, UnevenSizes) {
  EXPECT_EQ(extents(9, {{Axis::tp}}, 6), (std::vector<std::int64_t>{2, 2, 2, 2, 1, 0}));
  EXPECT_EQ(extents(5, {{Axis::tp}}, 2), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(extents(10, {{Axis::tp}}, 4), (std::vector<std::int64_t>{3, 3, 3, 1}));
  EXPECT_EQ(extents(0, {{Axis::tp}}, 2), (std::vector<std::int64_t>{0, 0}));
}

TEST(BoxOf, UnitsStayTogether) {
  EXPECT_EQ(extents(12, {{Axis::tp}, 0, 4}, 2), (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(extents(10, {{Axis::tp}, 0, 4}, 2), (std::vector<std::int64_t>{8, 2}));
}

// B26: 2 kv heads of 8 rows over tp 4: neighbours hold the same head.
TEST(BoxOf, FewerPartsThanRanks) {
  const MeshLayout mesh({1, 1, 1, 1, 4, 1});
  const auto spec = kWhole.with(0, {{Axis::tp}, 2, 8});
  for (int p = 0; p < 4; ++p)
    EXPECT_EQ(box_of({16, 3}, spec, mesh, p), (Box{{p / 2 * 8, 0}, {p / 2 * 8 + 8, 3}}));
  for (int p = 0; p < 4; ++p) EXPECT_EQ(owns_box({16, 3}, spec, mesh, p), p % 2 == 0);
  EXPECT_EQ(gradient_group({16, 3}, spec, View::dense, mesh, 3), (std::vector<int>{2, 3}));
  EXPECT_THROW(box_of({16, 3}, kWhole.with(0, {{Axis::tp}, 3}), mesh, 0), Error);
}

// All storage axes form one cut within the compute cut, so an all-gather over them lands contiguous.
TEST(BoxOf, StorageWithinCompute) {
  const MeshLayout mesh({1, 1, 2, 2, 2, 1});
  const auto spec = kWhole.with(0, {{Axis::tp}}).with(0, {{Axis::shard, Axis::cp}});
  EXPECT_EQ(to_string(spec), "d0 tp, shard*cp");
  for (int p = 0; p < 8; ++p) {
    const int tp = p % 2, storage = p / 2;  // shard*cp is the slower part of the position
    const auto box = box_of({18}, spec, mesh, p);
    EXPECT_EQ(box.begin[0], tp * 9 + std::min(9, storage * 3)) << p;
    EXPECT_EQ(box.count(), storage < 3 ? 3 : 0);
    EXPECT_EQ(padded_extent({18}, spec, mesh, p, 0), 3);
  }
}

TEST(Specs, SayWhatTheyCut) {
  const auto spec = kWhole.with(0, {{Axis::ep}}).with(0, {{Axis::edp}, 2, 4}).with(1, {{Axis::pp}, 1});
  EXPECT_EQ(to_string(spec), "d0 ep, edp/2(4); d1 pp/1");
  EXPECT_EQ(to_string(kWhole), "whole");
  EXPECT_TRUE(spec.cuts_axis(Axis::edp));
  EXPECT_FALSE(spec.cuts_axis(Axis::pp));
  EXPECT_FALSE(spec.cuts_axis(Axis::tp));
  EXPECT_THROW(spec.with(1, {{Axis::ep}}), Error);
  const MeshLayout mesh({1, 1, 2, 1, 2, 2});
  EXPECT_THROW(box_of({4}, kWhole.with(1, {{Axis::tp}}), mesh, 0), Error);
  EXPECT_THROW(owns_box({4, 4}, kWhole.with(0, {{Axis::tp}}).with(1, {{Axis::ep}}), mesh, 0), Error);
  EXPECT_THROW(gradient_group({4}, kWhole.with(0, {{Axis::tp}}), View::sparse, mesh, 0), Error);
}

TEST(Boxes, IntersectAndPrint) {
  const Box a{{0, 2}, {4, 6}}, b{{3, 0}, {9, 3}};
  EXPECT_EQ(intersect(a, b), (Box{{3, 2}, {4, 3}}));
  EXPECT_EQ(intersect(a, Box{{5, 0}, {9, 9}}).count(), 0);
  EXPECT_EQ(str(a), "[0:4, 2:6]");
  EXPECT_EQ(whole({3, 5}).count(), 15);
  EXPECT_EQ(intersect(whole({3, 5}), a).shape(), (Shape{3, 3}));
}

// ---- random specs on random meshes ----

struct Case {
  MeshShape shape;
  View view = View::dense;
  PartitionSpec spec;
  Shape global;
};

int pick(std::mt19937& random, std::initializer_list<int> values) {
  return *(values.begin() + random() % values.size());
}

Cut random_cut(std::mt19937& random, const MeshLayout& mesh, std::vector<Axis> axes) {
  Cut cut{std::move(axes), 0, pick(random, {1, 1, 2, 3})};
  const int product = mesh.size(cut.axes), parts = pick(random, {0, 0, 1, 2});
  if (parts > 0 && product % parts == 0) cut.parts = parts;
  return cut;
}

Case random_case(std::mt19937& random) {
  Case c;
  c.shape = {pick(random, {1, 2}), pick(random, {1, 2}),    pick(random, {1, 2, 3}),
             pick(random, {1, 2}), pick(random, {1, 2, 4}), 1};
  const int inner = c.shape.shard * c.shape.cp * c.shape.tp;
  do c.shape.ep = 1 + static_cast<int>(random() % static_cast<unsigned>(inner));
  while (inner % c.shape.ep != 0);
  c.view = random() % 2 ? View::dense : View::sparse;
  const MeshLayout mesh(c.shape);
  std::vector<Axis> axes = c.view == View::dense
                               ? std::vector{Axis::replicate, Axis::shard, Axis::cp, Axis::tp}
                               : std::vector{Axis::replicate, Axis::edp, Axis::ep};
  std::shuffle(axes.begin(), axes.end(), random);
  while (!axes.empty()) {
    const auto take = 1 + random() % std::min<std::size_t>(2, axes.size());
    const std::vector<Axis> some(axes.end() - static_cast<std::ptrdiff_t>(take), axes.end());
    axes.resize(axes.size() - take);
    if (random() % 3) c.spec = c.spec.with(static_cast<int>(random() % 2), random_cut(random, mesh, some));
  }
  c.global = {static_cast<std::int64_t>(random() % 15), static_cast<std::int64_t>(1 + random() % 9)};
  return c;
}

std::string describe(const Case& c) {
  return str(to_string(c.shape), " ", to_string(c.spec), " of ", c.global);
}

// The owners' boxes of a stage cover every element exactly once, and each owner is the lowest holder of its
// box.
void check_owners(const Case& c) {
  const MeshLayout mesh(c.shape);
  const int stage_ranks = c.shape.world() / c.shape.pp;
  for (int stage = 0; stage < c.shape.pp; ++stage) {
    std::vector<int> covered(static_cast<std::size_t>(c.global.count()), 0);
    std::map<std::string, int> lowest;
    for (int p = stage * stage_ranks; p < (stage + 1) * stage_ranks; ++p) {
      const auto box = box_of(c.global, c.spec, mesh, p);
      const bool lowest_holder = box.count() > 0 && lowest.emplace(str(box), p).second;
      ASSERT_EQ(owns_box(c.global, c.spec, mesh, p), lowest_holder) << describe(c) << " position " << p;
      if (!lowest_holder) continue;
      for (auto i = box.begin[0]; i < box.end[0]; ++i)
        for (auto j = box.begin[1]; j < box.end[1]; ++j)
          ++covered[static_cast<std::size_t>(i * c.global[1] + j)];
    }
    for (const int times : covered) ASSERT_EQ(times, 1) << describe(c);
  }
}

void check_gradient_groups(const Case& c) {
  const MeshLayout mesh(c.shape);
  for (int p = 0; p < c.shape.world(); ++p) {
    const auto group = gradient_group(c.global, c.spec, c.view, mesh, p);
    const auto box = box_of(c.global, c.spec, mesh, p);
    std::vector<int> holders;
    for (int q = 0; q < c.shape.world(); ++q)
      if (mesh.coordinate(q, Axis::pp) == mesh.coordinate(p, Axis::pp) &&
          box_of(c.global, c.spec, mesh, q) == box)
        holders.push_back(q);
    if (box.count() > 0)
      ASSERT_EQ(group, holders) << describe(c) << " position " << p;
    else
      ASSERT_TRUE(std::includes(holders.begin(), holders.end(), group.begin(), group.end())) << describe(c);
    for (const int member : group)
      ASSERT_EQ(gradient_group(c.global, c.spec, c.view, mesh, member), group) << describe(c);
  }
}

// The padded extent is that of the largest part among the ranks that gather the dim together.
void check_padding(const Case& c) {
  const MeshLayout mesh(c.shape);
  for (int dim = 0; dim < 2; ++dim) {
    const auto& cuts = c.spec.cuts[static_cast<std::size_t>(dim)];
    for (int p = 0; p < c.shape.world(); ++p) {
      std::int64_t largest = 0;
      for (const int q : cuts.empty() ? std::vector{p} : mesh.group(p, cuts.back().axes))
        largest = std::max(largest, box_of(c.global, c.spec, mesh, q).shape()[dim]);
      ASSERT_EQ(padded_extent(c.global, c.spec, mesh, p, dim), largest) << describe(c) << " dim " << dim;
    }
  }
}

TEST(RandomSpecs, TileTheTensorWithOneOwnerEach) {
  std::mt19937 random(1);
  for (int round = 0; round < 1500; ++round) check_owners(random_case(random));
}

TEST(RandomSpecs, GradientsAreSummedOverTheHoldersOfABox) {
  std::mt19937 random(2);
  for (int round = 0; round < 250; ++round) check_gradient_groups(random_case(random));
}

TEST(RandomSpecs, PaddingIsTheLargestPart) {
  std::mt19937 random(3);
  for (int round = 0; round < 800; ++round) check_padding(random_case(random));
}

// Any layout's boxes can be put together from the owners' boxes of any other.
TEST(RandomSpecs, AnyLayoutLoadsAnyOther) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const auto from = random_case(random), to = random_case(random);
    const MeshLayout source(from.shape), target(to.shape);
    for (int p = 0; p < to.shape.world(); ++p) {
      const auto wanted = box_of(from.global, to.spec, target, p);
      std::int64_t found = 0;
      for (int q = 0; q < from.shape.world() / from.shape.pp; ++q)
        if (owns_box(from.global, from.spec, source, q))
          found += intersect(box_of(from.global, from.spec, source, q), wanted).count();
      ASSERT_EQ(found, wanted.count()) << describe(from) << " to " << describe(to);
    }
  }
}

TEST(LargeMeshes, BoxesOfAHundredThousandPositionsAreFast) {
  const MeshLayout mesh({10, 5, 25, 10, 8, 8});
  const auto spec = kWhole.with(0, {{Axis::tp}, 0, 128}).with(0, {{Axis::shard, Axis::cp}});
  std::int64_t owned = 0;
  for (int p = 0; p < mesh.shape().world(); ++p)
    if (owns_box({8192, 8192}, spec, mesh, p)) owned += box_of({8192, 8192}, spec, mesh, p).count();
  EXPECT_EQ(owned, std::int64_t{8192} * 8192 * 10);
}

}  // namespace
}  // namespace fivefold
