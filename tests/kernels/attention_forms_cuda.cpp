// The form of attention by mma.sync, which a Hopper GPU would not choose by itself, on every case that it
// takes: held to the error of the CPU op, guards, the same bits when run again.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/products.cuh"
#include "tests/kernels/op_checks.h"

namespace fivefold::cases {
namespace {

class AttentionForms : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    stream_ = make_cuda_stream(0);
    memory_ = make_cuda_memory(0, {.poison = true});
    backend_ = make_cuda_backend(0);
    scratch_ = std::make_unique<cuda::Scratch>(make_cuda_memory(0));
    products_ = std::make_unique<cuda::LtProducts>(*scratch_, ProductChoice::first);
  }
  Machine machine() const { return {*backend_, *memory_, *stream_}; }
  template <class Op>
  bool run_mma(const Op& op) const {
    scratch_->work_on(*stream_);
    return cuda::mma_attention(op, {static_cast<cudaStream_t>(stream_->native()), *scratch_, *products_});
  }

  // How many cases of Op the form took.
  template <class Op>
  int check_cases() const {
    int taken = 0;
    for (const auto& c : cases<Op>(Scale::test)) taken += c.dtype == DType::bf16 && check_case(c) ? 1 : 0;
    return taken;
  }

 private:
  template <class Op>
  bool check_case(const Case<Op>& c) const {
    const auto initial = initial_values(c);
    Blocks first;
    for (int run = 0; run < 2; ++run) {
      const Placed<Op> placed(c, initial, machine(), Placing::aligned);
      if (!run_mma(placed.op)) return false;
      const auto blocks = read_blocks(placed, machine());
      if (run == 0) compare(c, initial, placed, blocks);
      if (run == 0) first = blocks;
      Faults faults;
      for (std::size_t i = 0; i < blocks.size(); ++i)
        compare_bits("second run", placed.operands[i], first[i], blocks[i], faults);
      for (const auto& fault : faults) ADD_FAILURE() << c.name() << ": " << fault;
    }
    return true;
  }

  template <class Op>
  void compare(const Case<Op>& c, const Values<double>& initial, const Placed<Op>& placed,
               const Blocks& blocks) const {
    const auto cpu = evaluate({*cpu_, *cpu_memory_, cpu_stream_}, c, initial);
    auto exact = initial;
    c.exact(c.op, exact);
    Faults faults;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto& operand = placed.operands[i];
      const auto& name = operand.info->name;
      check_bytes(operand, blocks[i], faults);
      if (operand.info->role == Role::input) continue;
      const double cut =
          static_cast<double>(operand.info->cuts) * ulp_of(operand.info->dtype, largest(exact[name]));
      compare_numbers(name, numbers_of(operand, blocks[i]), exact[name],
                      error_bound(*operand.info, c.dtype, exact[name], cpu[name]) + cut, faults);
    }
    for (const auto& fault : faults) ADD_FAILURE() << c.name() << ": " << fault;
  }

  std::unique_ptr<Stream> stream_;
  std::shared_ptr<Memory> memory_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<cuda::Scratch> scratch_;
  std::unique_ptr<cuda::LtProducts> products_;
  mutable CpuStream cpu_stream_;
  std::shared_ptr<Memory> cpu_memory_ = make_cpu_memory();
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
};

// The cases of add_tile_edges; backward leaves the two with heads of 256 out.
TEST_F(AttentionForms, MmaForward) { EXPECT_GE(check_cases<AttentionForward>(), 20); }
TEST_F(AttentionForms, MmaBackward) { EXPECT_GE(check_cases<AttentionBackward>(), 18); }

}  // namespace
}  // namespace fivefold::cases
