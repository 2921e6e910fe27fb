// Which box of every tensor a rank holds. Per dim an ordered list of cuts; pure functions, exhaustive tests.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "parallel/mesh/mesh.h"

namespace fivefold {

// Half-open box of a global tensor: begin[d] <= index[d] < end[d].
struct Box {
  Shape begin, end;
  Shape shape() const;
  std::int64_t count() const { return shape().count(); }
  bool operator==(const Box&) const = default;
};
Box whole(const Shape& shape);
Box intersect(const Box& a, const Box& b);                    // empty boxes have count 0
std::ostream& operator<<(std::ostream& out, const Box& box);  // [0:4, 2:6]

// One cut of a dim over the product of `axes` (first the slowest). `parts` may be smaller than that product
// when it divides it: then neighbours hold the same part (kv heads under a larger tp). Boundaries are
// multiples of `unit` rows. Part i of n units over p parts is units [i*c, (i+1)*c) with c = ceil(n/p), so
// only trailing parts are short or empty.
struct Cut {
  std::vector<Axis> axes;
  int parts = 0;          // 0: the product of the axes' sizes
  std::int64_t unit = 1;  // rows of this dim that stay together
  bool operator==(const Cut&) const = default;
};

// Cuts per dim, outermost first. Axes not named hold replicas.
struct PartitionSpec {
  std::array<std::vector<Cut>, Shape::kMaxRank> cuts;
  PartitionSpec with(int dim, Cut cut) const;
  // True when `axis` takes part in some cut of size > 1.
  bool cuts_axis(Axis axis) const;
  bool operator==(const PartitionSpec&) const = default;
};
std::string to_string(const PartitionSpec& spec);  // "d0 tp, shard*cp"

// The box that mesh position `position` holds. Deterministic; boxes of all parts tile the global tensor.
Box box_of(const Shape& global, const PartitionSpec& spec, const MeshLayout& mesh, int position);
// The extent of the largest part that the last cut of dim `dim` makes where `position` sits (that is, among
// the positions that share its outer parts): equal for all ranks that gather this dim together, which pad
// their buffers to it. Without cuts the extent of the dim.
std::int64_t padded_extent(const Shape& global, const PartitionSpec& spec, const MeshLayout& mesh,
                           int position, int dim);
// True on exactly one position per distinct non-empty box and pp coordinate: the lowest position that holds
// it. (Which stages hold a tensor at all is the model's knowledge.) Replicas are counted in the view that the
// spec's axes belong to.
bool owns_box(const Shape& global, const PartitionSpec& spec, const MeshLayout& mesh, int position);

// The axes of a view: which ranks see the tensor at all and how they replicate it.
enum class View : std::uint8_t { dense, sparse };

// Over which ranks a gradient is summed. Positions that hold the same compute box of a parameter hold
// disjoint parts of one sum; the group is all of them (every axis, or part of an axis, of the view that does
// not cut it). pp is left out: the stages that hold a tied parameter are given by the model. Ascending
// positions. A sum over the shared ranks of an empty box has no elements, and its group follows the same
// rule.
std::vector<int> gradient_group(const Shape& global, const PartitionSpec& compute, View view,
                                const MeshLayout& mesh, int position);

}  // namespace fivefold
