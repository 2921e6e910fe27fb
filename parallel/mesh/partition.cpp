// Interval arithmetic of cuts, and which positions hold the same part.
#include "parallel/mesh/partition.h"

#include <algorithm>

namespace fivefold {

namespace {

struct Interval {
  std::int64_t begin = 0, end = 0;
};

int parts_of(const Cut& cut, const MeshLayout& mesh) {
  const int product = mesh.size(cut.axes);
  if (cut.parts == 0) return product;
  FF_CHECK(cut.parts > 0 && product % cut.parts == 0, cut.parts, " parts over ", product, " ranks");
  return cut.parts;
}

// Ranks next to each other on the cut's axes that hold one part.
int replicas_of(const Cut& cut, const MeshLayout& mesh) { return mesh.size(cut.axes) / parts_of(cut, mesh); }

int part_at(const Cut& cut, const MeshLayout& mesh, int position) {
  return mesh.coordinate(position, cut.axes) / replicas_of(cut, mesh);
}

// Positions that differ from `position` only along the cut's axes and hold the same part.
std::vector<int> holders_along(const Cut& cut, const MeshLayout& mesh, int position) {
  const auto replicas = replicas_of(cut, mesh);
  if (replicas == 1) return {position};
  const auto along = mesh.group(position, cut.axes);
  const auto first = along.begin() + part_at(cut, mesh, position) * replicas;
  return {first, first + replicas};
}

// Rows of every part but the trailing ones.
std::int64_t rows_per_part(const Interval& whole, const Cut& cut, const MeshLayout& mesh) {
  FF_CHECK(cut.unit > 0, "a cut in units of ", cut.unit, " rows");
  const auto units = ceil_div(whole.end - whole.begin, cut.unit);
  return ceil_div(units, parts_of(cut, mesh)) * cut.unit;
}

Interval part_of(const Interval& whole, const Cut& cut, const MeshLayout& mesh, int position) {
  const auto rows = rows_per_part(whole, cut, mesh);
  const auto begin = std::min(whole.end, whole.begin + rows * part_at(cut, mesh, position));
  return {begin, std::min(whole.end, begin + rows)};
}

const std::vector<Cut>& cuts_of(const PartitionSpec& spec, int dim) {
  return spec.cuts[static_cast<std::size_t>(dim)];
}

template <class F>
void for_each_cut(const PartitionSpec& spec, F&& f) {
  for (const auto& dim : spec.cuts)
    for (const auto& cut : dim) f(cut);
}

bool names(const PartitionSpec& spec, Axis axis) {
  bool named = false;
  for_each_cut(
      spec, [&](const Cut& cut) { named = named || std::count(cut.axes.begin(), cut.axes.end(), axis) > 0; });
  return named;
}

constexpr std::array<Axis, 4> kDense{Axis::replicate, Axis::shard, Axis::cp, Axis::tp};
constexpr std::array<Axis, 3> kSparse{Axis::replicate, Axis::edp, Axis::ep};

// The axes of a view along which a stage's ranks differ.
std::span<const Axis> axes_of(View view) {
  if (view == View::dense) return kDense;
  return kSparse;
}

View view_of(const PartitionSpec& spec) {
  return names(spec, Axis::edp) || names(spec, Axis::ep) ? View::sparse : View::dense;
}

void check_view(const PartitionSpec& spec, View view) {
  const auto axes = axes_of(view);
  for_each_cut(spec, [&](const Cut& cut) {
    for (const auto axis : cut.axes)
      FF_CHECK(axis == Axis::pp || std::count(axes.begin(), axes.end(), axis) > 0, "axis ", name_of(axis),
               " is not in the tensor's view");
  });
}

}  // namespace

Shape Box::shape() const {
  Shape extents = begin;
  for (int d = 0; d < begin.rank(); ++d) extents[d] = end[d] - begin[d];
  return extents;
}

Box whole(const Shape& shape) {
  Box box{shape, shape};
  for (int d = 0; d < shape.rank(); ++d) box.begin[d] = 0;
  return box;
}

Box intersect(const Box& a, const Box& b) {
  FF_CHECK_EQ(a.begin.rank(), b.begin.rank(), "boxes of one tensor");
  Box both = a;
  for (int d = 0; d < a.begin.rank(); ++d) {
    both.begin[d] = std::max(a.begin[d], b.begin[d]);
    both.end[d] = std::max(both.begin[d], std::min(a.end[d], b.end[d]));
  }
  return both;
}

std::ostream& operator<<(std::ostream& out, const Box& box) {
  out << '[';
  for (int d = 0; d < box.begin.rank(); ++d) out << (d ? ", " : "") << box.begin[d] << ':' << box.end[d];
  return out << ']';
}

PartitionSpec PartitionSpec::with(int dim, Cut cut) const {
  FF_CHECK(0 <= dim && dim < Shape::kMaxRank, "dim ", dim);
  for (const auto axis : cut.axes) FF_CHECK(!names(*this, axis), "axis ", name_of(axis), " cuts already");
  auto spec = *this;
  spec.cuts[static_cast<std::size_t>(dim)].push_back(std::move(cut));
  return spec;
}

bool PartitionSpec::cuts_axis(Axis axis) const {
  bool cuts_it = false;
  for_each_cut(*this, [&](const Cut& cut) {
    cuts_it = cuts_it || (cut.parts != 1 && std::count(cut.axes.begin(), cut.axes.end(), axis) > 0);
  });
  return cuts_it;
}

std::string to_string(const PartitionSpec& spec) {
  std::string text;
  for (int d = 0; d < Shape::kMaxRank; ++d) {
    std::string_view before = text.empty() ? "" : "; ";
    for (const auto& cut : cuts_of(spec, d)) {
      text += before == ", " ? std::string(before) : str(before, "d", d, " ");
      for (std::size_t i = 0; i < cut.axes.size(); ++i) text += str(i ? "*" : "", name_of(cut.axes[i]));
      if (cut.parts > 0) text += str("/", cut.parts);
      if (cut.unit > 1) text += str("(", cut.unit, ")");
      before = ", ";
    }
  }
  return text.empty() ? "whole" : text;
}

Box box_of(const Shape& global, const PartitionSpec& spec, const MeshLayout& mesh, int position) {
  Box box = whole(global);
  for (int d = 0; d < Shape::kMaxRank; ++d) {
    FF_CHECK(d < global.rank() || cuts_of(spec, d).empty(), "a cut of dim ", d, " of a tensor of shape ",
             global);
    if (d >= global.rank()) continue;
    Interval interval{0, global[d]};
    for (const auto& cut : cuts_of(spec, d)) interval = part_of(interval, cut, mesh, position);
    box.begin[d] = interval.begin;
    box.end[d] = interval.end;
  }
  return box;
}

std::int64_t padded_extent(const Shape& global, const PartitionSpec& spec, const MeshLayout& mesh,
                           int position, int dim) {
  FF_CHECK(0 <= dim && dim < global.rank(), "dim ", dim, " of ", global);
  const auto& cuts = cuts_of(spec, dim);
  Interval interval{0, global[dim]};
  if (cuts.empty()) return global[dim];
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) interval = part_of(interval, cuts[i], mesh, position);
  return std::min(interval.end - interval.begin, rows_per_part(interval, cuts.back(), mesh));
}

bool owns_box(const Shape& global, const PartitionSpec& spec, const MeshLayout& mesh, int position) {
  const auto view = view_of(spec);
  check_view(spec, view);
  for (const auto axis : axes_of(view))
    if (!names(spec, axis) && mesh.coordinate(position, axis) != 0) return false;
  bool first = true;
  for_each_cut(spec, [&](const Cut& cut) {
    const auto same = holders_along(cut, mesh, position);
    first = first && position == *std::min_element(same.begin(), same.end());
  });
  return first && box_of(global, spec, mesh, position).count() > 0;
}

std::vector<int> gradient_group(const Shape& global, const PartitionSpec& compute, View view,
                                const MeshLayout& mesh, int position) {
  check_view(compute, view);
  FF_CHECK(box_of(global, compute, mesh, position).begin.rank() == global.rank(),
           "a cut of a dim that is not there");
  std::vector<Axis> uncut;
  for (const auto axis : axes_of(view))
    if (!names(compute, axis)) uncut.push_back(axis);
  auto members = mesh.group(position, uncut);
  for_each_cut(compute, [&](const Cut& cut) {
    std::vector<int> wider;
    for (const int member : members) {
      const auto along = holders_along(cut, mesh, member);
      wider.insert(wider.end(), along.begin(), along.end());
    }
    members = std::move(wider);
  });
  std::sort(members.begin(), members.end());
  return members;
}

}  // namespace fivefold
