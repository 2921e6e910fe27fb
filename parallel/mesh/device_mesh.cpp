// Communicators over the axes of a mesh, made once, in one order on all ranks.
#include <algorithm>

#include "parallel/mesh/mesh.h"

namespace fivefold {

namespace {

std::string name_of_group(const DeviceMesh::Wanted& wanted) {
  std::string name;
  for (const auto axis : wanted.axes) name += str(name.empty() ? "" : "_", name_of(axis));
  if (wanted.parts > 0) name += str("_in_", wanted.parts);
  return wanted.purpose.empty() ? name : name + "/" + wanted.purpose;
}

// Positions of the wanted group that `position` belongs to.
std::vector<int> members_of(const MeshLayout& layout, int position, const DeviceMesh::Wanted& wanted) {
  auto members = layout.group(position, wanted.axes);
  if (wanted.ends && members.size() > 2) members = {members.front(), members.back()};
  if (wanted.parts == 0) return members;
  const auto last = wanted.axes.back();
  const int run = layout.size(last) / wanted.parts;
  const auto part = [&](int at) { return layout.coordinate(at, last) / run; };
  std::erase_if(members, [&](int member) { return part(member) != part(position); });
  return members;
}

// The first position of every tp group that does not lie within one host.
std::vector<int> crossing_groups(const MeshLayout& layout, const std::vector<int>& world_rank_at,
                                 const std::vector<HostSlot>& slots) {
  std::vector<int> crossing;
  const auto host = [&](int position) -> const std::string& {
    return slots[static_cast<std::size_t>(world_rank_at[static_cast<std::size_t>(position)])].host;
  };
  const int tp = layout.shape().tp, world = layout.shape().world();
  for (int first = 0; first < world; first += tp)
    for (int i = 1; i < tp; ++i)
      if (host(first + i) != host(first)) {
        crossing.push_back(first);
        break;
      }
  return crossing;
}

}  // namespace

DeviceMesh::DeviceMesh(MeshShape shape, Transport& transport, const std::vector<HostSlot>& slots,
                       const std::vector<Wanted>& groups)
    : layout_(shape), transport_(transport) {
  auto& everyone = transport.world();
  check_mesh(shape, everyone.size());
  FF_CHECK_EQ(static_cast<int>(slots.size()), everyone.size(), "one slot per rank");
  world_rank_at_ = order_ranks(slots);
  position_ = static_cast<int>(std::find(world_rank_at_.begin(), world_rank_at_.end(), everyone.rank()) -
                               world_rank_at_.begin());
  std::map<std::pair<std::vector<int>, std::string>, Communicator*> made;
  for (const auto& wanted : groups) {
    auto members = members_of(layout_, position_, wanted);
    const bool member = std::find(members.begin(), members.end(), position_) != members.end();
    for (auto& each : members) each = world_rank_at(each);
    if (!member) members.clear();
    auto& communicator = made[{members, wanted.purpose}];
    if (communicator == nullptr)  // on all ranks or on none, since all groups of a kind are alike
      communicator = owned_.emplace_back(transport.split(name_of_group(wanted), members)).get();
    if (!member) continue;
    if (wanted.messages) communicator->connect_neighbours();
    by_axes_[{wanted.axes, wanted.purpose, wanted.parts}] = communicator;
  }
  if (const auto crossing = crossing_groups(layout_, world_rank_at_, slots); !crossing.empty())
    warnings_.push_back(str(crossing.size(), " of ", shape.world() / shape.tp,
                            " tp groups cross hosts, the first at positions ", crossing.front(), " to ",
                            crossing.front() + shape.tp - 1,
                            ": tp is slow over a network; use a tp that divides the ranks of every host"));
}

Communicator& DeviceMesh::over(const std::vector<Axis>& axes, const std::string& purpose, int parts) const {
  const auto found = by_axes_.find({axes, purpose, parts});
  FF_CHECK(found != by_axes_.end(), "no communicator ", name_of_group({axes, purpose, parts}), " was wanted");
  return *found->second;
}

}  // namespace fivefold
