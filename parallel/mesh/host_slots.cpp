// One small exchange; the repair of local ranks is a pure function of what everybody said, so all ranks
// agree.
#include "parallel/mesh/host_slots.h"

#include <set>

namespace fivefold {

namespace {

constexpr int kUnknown = -1;

HostSlot decode(const std::string& text) {
  const auto space = text.find(' ');
  FF_CHECK(space != std::string::npos, "a slot is 'local_rank host', not '", text, "'");
  return {text.substr(space + 1), std::stoi(text.substr(0, space))};
}

void number_anew(std::vector<HostSlot>& slots, const std::string& host) {
  int next = 0;
  for (auto& slot : slots)
    if (slot.host == host) slot.local_rank = next++;
}

}  // namespace

std::vector<HostSlot> gather_host_slots(Communicator& world, const std::string& host,
                                        std::optional<int> local_rank) {
  std::vector<HostSlot> slots;
  for (const auto& text : world.gather_bytes(str(local_rank.value_or(kUnknown), ' ', host)))
    slots.push_back(decode(text));
  std::set<std::pair<std::string, int>> taken;
  std::set<std::string> unclear;
  for (const auto& slot : slots)
    if (slot.local_rank < 0 || !taken.emplace(slot.host, slot.local_rank).second) unclear.insert(slot.host);
  for (const auto& name : unclear) number_anew(slots, name);
  return slots;
}

}  // namespace fivefold
