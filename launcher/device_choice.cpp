// One sentence for each thing that keeps NCCL from joining the ranks.
#include "launcher/device_choice.h"

#include <algorithm>
#include <map>

namespace fivefold {

namespace {

constexpr const char* kInstead = "; use parallel.transport=mpi or auto";

// Why NCCL cannot join these ranks; nullopt where it can.
std::optional<std::string> obstacle(bool on_gpus, bool built, std::span<const RankView> ranks) {
  if (!built) return "this program was built without it";
  if (!on_gpus) return "it moves CUDA tensors, and these ranks compute on the CPU";
  const auto without = std::find_if(ranks.begin(), ranks.end(), [](const auto& r) { return r.gpus.empty(); });
  if (without != ranks.end())
    return str("rank ", without - ranks.begin(), " on host ", without->host, " sees no GPU");
  if (const auto shared = shared_gpu(ranks)) return str("every rank needs a GPU of its own, but ", *shared);
  return std::nullopt;
}

}  // namespace

bool wants_gpus(const TrainConfig& train) {
  if (train.device == DeviceChoice::automatic) return train.precision != DType::f64;
  return train.device == DeviceChoice::cuda;
}

int gpu_of(int local_rank, int gpus) { return gpus == 0 ? -1 : local_rank % gpus; }

std::optional<std::string> shared_gpu(std::span<const RankView> ranks) {
  std::map<std::pair<std::string, std::string>, std::size_t> taken;  // host and GPU -> rank
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const int gpu = gpu_of(ranks[r].local_rank, static_cast<int>(ranks[r].gpus.size()));
    if (gpu < 0) continue;
    const auto& uuid = ranks[r].gpus[static_cast<std::size_t>(gpu)];
    const auto [first, fresh] = taken.try_emplace({ranks[r].host, uuid}, r);
    if (!fresh)
      return str(
          "ranks ", first->second, " and ", r, " share ", uuid, " of host ", ranks[r].host, ", where ",
          std::count_if(ranks.begin(), ranks.end(), [&](const auto& x) { return x.host == ranks[r].host; }),
          " ranks run and rank ", r, " sees ", ranks[r].gpus.size(), " GPUs");
  }
  return std::nullopt;
}

bool uses_nccl(TransportName asked, bool on_gpus, bool built, std::span<const RankView> ranks) {
  if (asked != TransportName::automatic && asked != TransportName::nccl) return false;
  if (asked == TransportName::automatic && ranks.size() == 1) return false;
  const auto why_not = obstacle(on_gpus, built, ranks);
  if (why_not && asked == TransportName::nccl)
    throw UserError(str("parallel.transport=nccl is not possible: ", *why_not, kInstead));
  return !why_not;
}

}  // namespace fivefold
