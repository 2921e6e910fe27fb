// By local rank, over the devices that this process sees.
#include "launcher/rank_device.h"

#include <set>

#include "core/cuda.h"
#include "launcher/device_choice.h"

namespace fivefold {

Device rank_device(const TrainConfig& train, const RankContext& context) {
  if (!wants_gpus(train)) return {};
  const int devices = cuda_device_count();
  if (devices == 0 && train.device == DeviceChoice::cuda)
    throw UserError(
        "train.device=cuda needs a CUDA device, and this process sees none: look at nvidia-smi and "
        "CUDA_VISIBLE_DEVICES, build where a CUDA toolkit is found, or use train.device=cpu");
  if (devices == 0) return {};
  const auto& slot = context.slots[static_cast<std::size_t>(context.world_rank())];
  return {DeviceKind::cuda, gpu_of(slot.local_rank, devices)};
}

int devices_of(const RankContext& context, Device mine) {
  const auto own =
      mine.kind == DeviceKind::cuda ? cuda_device_uuid(mine.index) : str("rank ", context.world_rank());
  const auto all = context.transport.world().gather_bytes(own);
  return static_cast<int>(std::set(all.begin(), all.end()).size());
}

}  // namespace fivefold
