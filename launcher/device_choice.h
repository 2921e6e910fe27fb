// Which GPU each rank takes, and whether NCCL can join them: pure functions of what all ranks see.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/config.h"

namespace fivefold {

// Whether ranks compute on the GPUs that they see: train.device = auto does, but for f64, which is there to
// compare with.
bool wants_gpus(const TrainConfig& train);

struct RankView {
  std::string host;
  int local_rank = 0;             // among the ranks of the host
  std::vector<std::string> gpus;  // UUIDs of the GPUs it sees, in its order (CUDA_VISIBLE_DEVICES is applied)
};

// The rank's place in its list: the ranks of a host take the GPUs that they see in turn. Some launchers show
// each rank one GPU only, so the list, not the host, is what counts. -1 for a rank that sees none.
int gpu_of(int local_rank, int gpus);

// Two ranks of one host that take the same GPU, in a sentence's words: "ranks 0 and 4 share GPU-... of host
// a".
std::optional<std::string> shared_gpu(std::span<const RankView> ranks);

// True where the ranks, which are processes and compute on GPUs if `on_gpus`, talk by NCCL; else by MPI.
// `automatic` takes NCCL where there are several ranks and each has a GPU of its own. `built`: NCCL is part
// of this program. Throws UserError where nccl is asked for and cannot be.
bool uses_nccl(TransportName asked, bool on_gpus, bool built, std::span<const RankView> ranks);

}  // namespace fivefold
