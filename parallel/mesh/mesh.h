// Where every rank sits. A mesh is a pure layout (axes and sizes); communicators over its axes are made once
// from it. Words: *axis* means a mesh axis, *dim* a tensor dimension.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "parallel/comm/communicator.h"

namespace fivefold {

// Outermost first; the last axis of a view varies fastest over mesh positions, so tp neighbours share a node.
enum class Axis : std::uint8_t { pp, replicate, shard, cp, tp, edp, ep };
constexpr int kAxes = 7;
std::string_view name_of(Axis axis);

// dense view:  pp x replicate x shard x cp x tp
// sparse view: pp x replicate x edp x ep       the same positions as experts see them: shard*cp*tp == edp*ep
struct MeshShape {
  int pp = 1, replicate = 1, shard = 1, cp = 1, tp = 1, ep = 1;
  int world() const { return pp * replicate * shard * cp * tp; }
  int edp() const { return shard * cp * tp / ep; }
  int data_ranks() const { return replicate * shard; }
  int size(Axis axis) const;
  bool operator==(const MeshShape&) const = default;
};
std::string to_string(const MeshShape& shape);  // "pp 2 x replicate 1 x shard 2 x cp 1 x tp 2 (ep 1)"

// What else must hold of a mesh: that its degrees suit a model.
using MeshRule = std::function<bool(const MeshShape&)>;
// The mesh of `world` ranks that is nearest to `wanted` among those that `fits` takes: the fewest changed
// degrees, then the smallest sum of |log ratio|. ep stays where it can, else it is 1. Nothing if none fits.
std::optional<MeshShape> nearest_mesh(const MeshShape& wanted, int world, const MeshRule& fits = {});

// Throws UserError (rule, values, nearest degrees that `fits` takes) unless the degrees multiply to `world`
// and ep divides shard*cp*tp.
void check_mesh(const MeshShape& shape, int world, const MeshRule& fits = {});

// Pure function of (shape, position): no communication, testable for any rank of any world.
class MeshLayout {
 public:
  explicit MeshLayout(MeshShape shape) : shape_(shape) {}
  const MeshShape& shape() const { return shape_; }
  int size(Axis axis) const { return shape_.size(axis); }
  int coordinate(int position, Axis axis) const;
  // Combined coordinate over several axes, the first the slowest; 0 <= result < product of their sizes.
  int coordinate(int position, std::span<const Axis> axes) const;
  int size(std::span<const Axis> axes) const;
  // Positions that share every coordinate of the axes' view with `position` except along `over`, ordered by
  // the combined coordinate over `over`. Dense and sparse axes do not mix in one call (pp and replicate
  // belong to both).
  std::vector<int> group(int position, std::span<const Axis> over) const;

 private:
  MeshShape shape_;
};

// Where a process runs, gathered from all ranks.
struct HostSlot {
  std::string host;
  int local_rank = 0;
};
// Position -> world rank: hosts in order of their names' first appearance by lowest world rank, local ranks
// ascending within a host. Independent of the order in which a launcher numbered the ranks of different
// hosts.
std::vector<int> order_ranks(const std::vector<HostSlot>& by_world_rank);

// One rank's view: its coordinates and its communicators.
class DeviceMesh {
 public:
  // Collective over the world. `slots` as gathered; every rank creates the same groups in the same order,
  // which is the order of `groups`. Groups of size 1 cost nothing. Axis sets with equal members share a
  // communicator unless `purpose` differs.
  struct Wanted {
    std::vector<Axis> axes;
    std::string purpose;  // "weights", "activations"
    int parts = 0;        // of the last axis: neighbours that share a part form the group; 0: the whole axis
    bool ends = false;    // only the first and the last of the group; the others have none
    bool messages = false;  // neighbours exchange messages
  };
  DeviceMesh(MeshShape shape, Transport& transport, const std::vector<HostSlot>& slots,
             const std::vector<Wanted>& groups);

  const MeshLayout& layout() const { return layout_; }
  const MeshShape& shape() const { return layout_.shape(); }
  int position() const { return position_; }
  int coordinate(Axis axis) const { return layout_.coordinate(position_, axis); }
  int size(Axis axis) const { return layout_.size(axis); }
  // The communicator of a wanted (axes, purpose); throws Error for one that was not wanted.
  Communicator& over(const std::vector<Axis>& axes, const std::string& purpose, int parts = 0) const;
  Communicator& world() const { return transport_.world(); }
  int world_rank_at(int position) const { return world_rank_at_[static_cast<std::size_t>(position)]; }
  // Sentences for people: a tp group that crosses hosts, and so on.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  MeshLayout layout_;
  Transport& transport_;
  int position_ = 0;
  std::vector<int> world_rank_at_;
  std::map<std::tuple<std::vector<Axis>, std::string, int>, Communicator*> by_axes_;
  std::vector<std::unique_ptr<Communicator>> owned_;
  std::vector<std::string> warnings_;
};

}  // namespace fivefold
