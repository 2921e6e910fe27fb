// `fivefold bench comm`: times every collective over sizes.
#pragma once
#include <ostream>
#include <string>

#include "launcher/world.h"

namespace fivefold {

struct BenchCommOptions {
  std::string only;  // a part of the operation's name, empty: all
  DType dtype = DType::f32;
  std::int64_t least_bytes = 1 << 10, most_bytes = 1 << 26, factor = 4;
  int warmup = 5, iterations = 20;
};

// What nccl-tests call algorithm and bus bandwidth, for n ranks, S bytes and t seconds. S: of the whole
// operand, which is the gathered or the scattered one; of what a rank sends to all in all_to_all; of one
// message in send_recv, where every rank sends to the next and receives from the one before. Algorithm
// bandwidth = S / t. Bus bandwidth = that times 2 (n - 1) / n for all_reduce, (n - 1) / n for all_gather,
// reduce_scatter and all_to_all, 1 for send_recv: what each rank's link carries at least, whatever n is.
double bus_factor(const std::string& operation, int ranks);

// Collective over the world. Rank 0 prints one line an operation and size: the mean of all ranks' times of
// one transfer, when many follow one another and no host waits in between. Operands lie in `memory`, home
// `stream`.
void bench_comm(RankContext& context, const BenchCommOptions& options, Memory& memory, Stream& stream,
                std::ostream& out);

}  // namespace fivefold
