// Stored weights as one tensor, and back.
#include "kernels/cuda/execute.cuh"
#include "kernels/cuda/stored_master.cuh"

namespace fivefold::cuda {

namespace {

constexpr int kPack = 4;

template <class W>
struct Reading {
  WeightPointers weight;
  typename W::Number* value;
  template <int N>
  __device__ void run(std::int64_t i) const {
    store(value + i, W(weight).template number<N>(i, true));
  }
};

template <class W>
struct Writing {
  WeightPointers weight;
  const typename W::Number* value;
  template <int N>
  __device__ void run(std::int64_t i) const {
    W(weight).template put<N>(i, load<N>(value + i), true);
  }
};

// Queues Work<W> for all elements.
template <template <class> class Work>
void queue(const StoredMaster& weight, const Tensor& value, const CudaContext& ctx) {
  const bool packed = packs_aligned(weight) && packs_aligned({value.raw()});
  with_master(weight, [&]<class W>(Form<W>) {
    const Work<W> work{WeightPointers(weight), elements<typename W::Number>(value)};
    for_each<kPack>(value.count(), packed, work, ctx);
  });
}

}  // namespace

void execute(const ReadMaster& op, const CudaContext& ctx) { queue<Reading>(op.weight, op.value, ctx); }

void execute(const WriteMaster& op, const CudaContext& ctx) { queue<Writing>(op.weight, op.value, ctx); }

}  // namespace fivefold::cuda
