// Strides of the two views, groups by strides, and the refusal of meshes that do not fit.
#include "parallel/mesh/mesh.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

#include "core/error.h"

namespace fivefold {

namespace {

constexpr std::array<std::string_view, kAxes> kAxisNames{"pp", "replicate", "shard", "cp", "tp", "edp", "ep"};

bool is_dense(Axis axis) { return axis == Axis::shard || axis == Axis::cp || axis == Axis::tp; }
bool is_sparse(Axis axis) { return axis == Axis::edp || axis == Axis::ep; }

// Distance in positions between neighbours along `axis`.
int stride(const MeshShape& shape, Axis axis) {
  switch (axis) {
    case Axis::tp:
      return 1;
    case Axis::cp:
      return shape.tp;
    case Axis::shard:
      return shape.cp * shape.tp;
    case Axis::replicate:
      return shape.shard * shape.cp * shape.tp;
    case Axis::pp:
      return shape.replicate * shape.shard * shape.cp * shape.tp;
    case Axis::ep:
      return 1;
    case Axis::edp:
      return shape.ep;
  }
  return 0;
}

void check_axes(std::span<const Axis> axes) {
  bool dense = false, sparse = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    FF_CHECK(std::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), axes[i]) ==
                 axes.begin() + static_cast<std::ptrdiff_t>(i),
             "axis ", name_of(axes[i]), " named twice");
    dense = dense || is_dense(axes[i]);
    sparse = sparse || is_sparse(axes[i]);
  }
  FF_CHECK(!(dense && sparse), "dense and sparse axes do not mix");
}

// The degrees whose product is the world, those that are changed with least regret first.
constexpr std::array<Axis, 5> kDenseAxes{Axis::shard, Axis::replicate, Axis::pp, Axis::cp, Axis::tp};

int& degree(MeshShape& shape, Axis axis) {
  switch (axis) {
    case Axis::pp:
      return shape.pp;
    case Axis::replicate:
      return shape.replicate;
    case Axis::shard:
      return shape.shard;
    case Axis::cp:
      return shape.cp;
    default:
      return shape.tp;
  }
}

std::vector<int> divisors(int n) {
  std::vector<int> all;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

// Tries every way to write `world` as a product of degrees.
class NearestShape {
 public:
  NearestShape(const MeshShape& wanted, int world, const MeshRule& fits)
      : wanted_(wanted), fits_(fits), divisors_(divisors(world)) {
    MeshShape shape = wanted;
    walk(shape, 0, world, {0, 0, 0});
  }
  const std::optional<MeshShape>& best() const { return best_; }

 private:
  using Cost = std::tuple<int, double, std::size_t>;

  void walk(MeshShape& shape, std::size_t axis, int rest, Cost cost) {
    if (cost >= best_cost_) return;
    if (axis + 1 == kDenseAxes.size()) {
      cost = add(cost, shape, axis, rest);
      if (cost < best_cost_ && (shape.shard * shape.cp * shape.tp) % shape.ep == 0 &&
          (!fits_ || fits_(shape)))
        best_ = shape, best_cost_ = cost;
      return;
    }
    for (const int d : divisors_)
      if (rest % d == 0) {
        const auto next = add(cost, shape, axis, d);
        walk(shape, axis + 1, rest / d, next);
      }
  }
  Cost add(Cost cost, MeshShape& shape, std::size_t axis, int value) {
    MeshShape wanted = wanted_;
    const int before = degree(wanted, kDenseAxes[axis]);
    degree(shape, kDenseAxes[axis]) = value;
    if (value == before) return cost;
    const auto [changed, distance, regret] = cost;
    // Rounded, so that equal ratios reached in another order stay equal.
    const auto ratio = std::round(std::abs(std::log(static_cast<double>(value) / before)) * 1e6);
    return {changed + 1, distance + ratio, regret + axis};
  }

  MeshShape wanted_;
  const MeshRule& fits_;
  std::vector<int> divisors_;
  std::optional<MeshShape> best_;
  Cost best_cost_{1 << 20, 0, 0};
};

// Saturates: absurd degrees must not wrap round to the world's size.
std::int64_t product(const MeshShape& shape) {
  std::int64_t n = 1;
  for (const auto d : {shape.pp, shape.replicate, shape.shard, shape.cp, shape.tp})
    n = std::min<std::int64_t>(n * d, std::int64_t{1} << 31);
  return n;
}

std::string degrees(const MeshShape& s) {
  return str("pp ", s.pp, " x replicate ", s.replicate, " x shard ", s.shard, " x cp ", s.cp, " x tp ", s.tp);
}

}  // namespace

std::string_view name_of(Axis axis) { return kAxisNames[static_cast<std::size_t>(axis)]; }

int MeshShape::size(Axis axis) const {
  switch (axis) {
    case Axis::pp:
      return pp;
    case Axis::replicate:
      return replicate;
    case Axis::shard:
      return shard;
    case Axis::cp:
      return cp;
    case Axis::tp:
      return tp;
    case Axis::edp:
      return edp();
    case Axis::ep:
      return ep;
  }
  return 0;
}

std::string to_string(const MeshShape& shape) { return str(degrees(shape), " (ep ", shape.ep, ")"); }

std::optional<MeshShape> nearest_mesh(const MeshShape& wanted, int world, const MeshRule& fits) {
  auto best = NearestShape(wanted, world, fits).best();
  if (best || wanted.ep == 1) return best;
  auto dense = wanted;
  dense.ep = 1;
  return NearestShape(dense, world, fits).best();
}

void check_mesh(const MeshShape& shape, int world, const MeshRule& fits) {
  FF_CHECK(world > 0, "a world of ", world);
  for (const auto axis : {Axis::pp, Axis::replicate, Axis::shard, Axis::cp, Axis::tp, Axis::ep}) {
    const int size = axis == Axis::ep ? shape.ep : shape.size(axis);
    if (size < 1)
      throw UserError(str("parallel.", name_of(axis), " is ", size, ", but every degree is at least 1"));
  }
  const auto ranks = product(shape);
  if (ranks != world) {
    MeshShape wanted = shape;
    wanted.ep = std::gcd(shape.ep, world);
    const auto nearest = nearest_mesh(wanted, world, fits);
    throw UserError(str("the degrees must multiply to the number of ranks: ", degrees(shape), " = ",
                        ranks >= (std::int64_t{1} << 31) ? "more than 2^31" : str(ranks), ", but there are ",
                        world, " ranks; ",
                        nearest ? "the nearest mesh that fits is " + degrees(*nearest)
                                : str("no mesh of ", world, " ranks fits")));
  }
  const int inner = shape.shard * shape.cp * shape.tp;
  if (inner % shape.ep == 0) return;
  const auto degrees_of_ep = divisors(inner);
  const auto above = std::upper_bound(degrees_of_ep.begin(), degrees_of_ep.end(), shape.ep);
  throw UserError(str("ep must divide shard x cp x tp: ep is ", shape.ep, ", shard ", shape.shard, " x cp ",
                      shape.cp, " x tp ", shape.tp, " = ", inner, "; the nearest ep that fits is ",
                      *(above - 1), above == degrees_of_ep.end() ? std::string() : str(" or ", *above)));
}

int MeshLayout::coordinate(int position, Axis axis) const {
  return position / stride(shape_, axis) % shape_.size(axis);
}

int MeshLayout::coordinate(int position, std::span<const Axis> axes) const {
  check_axes(axes);
  int combined = 0;
  for (const auto axis : axes) combined = combined * size(axis) + coordinate(position, axis);
  return combined;
}

int MeshLayout::size(std::span<const Axis> axes) const {
  check_axes(axes);
  int n = 1;
  for (const auto axis : axes) n *= size(axis);
  return n;
}

std::vector<int> MeshLayout::group(int position, std::span<const Axis> over) const {
  check_axes(over);
  int base = position;
  for (const auto axis : over) base -= coordinate(position, axis) * stride(shape_, axis);
  std::vector<int> members{base};
  for (const auto axis : over) {
    std::vector<int> wider;
    wider.reserve(members.size() * static_cast<std::size_t>(size(axis)));
    for (const int member : members)
      for (int i = 0; i < size(axis); ++i) wider.push_back(member + i * stride(shape_, axis));
    members = std::move(wider);
  }
  return members;
}

std::vector<int> order_ranks(const std::vector<HostSlot>& by_world_rank) {
  std::map<std::string_view, int> first_rank;
  std::vector<std::tuple<int, int, int>> keys;  // first rank of the host, local rank, world rank
  for (const auto& slot : by_world_rank) {
    const int rank = static_cast<int>(keys.size());
    keys.emplace_back(first_rank.emplace(slot.host, rank).first->second, slot.local_rank, rank);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int> ranks;
  for (const auto& key : keys) ranks.push_back(std::get<2>(key));
  return ranks;
}

}  // namespace fivefold
