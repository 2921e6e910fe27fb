// Every case of every op on a CUDA device, as one test an op and dtype: held to the error of the CPU op or of
// the plain formula in f32, guards, inputs unchanged, outputs filled with NaN before, the same bits when run
// again, shared memory. One more refuses a stream of another device.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "kernels/cuda_backend.h"
#include "tests/kernels/op_checks.h"

namespace fivefold::cases {
namespace {

// A CPU machine and a CUDA one.
class Pair {
 public:
  explicit Pair(ProductChoice choice = ProductChoice::first)
      : backend_(make_cuda_backend(0, nullptr, choice)) {}
  const Machine& cpu() const { return cpu_; }
  const Machine& cuda() const { return cuda_; }

 private:
  CpuStream cpu_stream_;
  std::shared_ptr<Memory> cpu_memory_ = make_cpu_memory();
  std::unique_ptr<Backend> cpu_backend_ = make_cpu_backend();
  std::unique_ptr<Stream> stream_ = make_cuda_stream(0);
  std::shared_ptr<Memory> memory_ = make_cuda_memory(0, {.poison = true});
  std::unique_ptr<Backend> backend_;
  Machine cpu_{*cpu_backend_, *cpu_memory_, cpu_stream_}, cuda_{*backend_, *memory_, *stream_};
};

// Results to compare with: of the formula in f64, of the CPU op in the case's dtype, and of the formula in
// f32. CPU libraries add long sums in blocks, whose error grows more slowly than that of one sum from the
// first product to the last, which is what the formula takes and a GPU may.
struct Expected {
  Values<double> exact, cpu, plain;

  double bound(const OperandInfo& operand, DType dtype) const {
    const auto& name = operand.name;
    return std::max(error_bound(operand, dtype, exact[name], cpu[name]),
                    error_bound(operand, dtype, exact[name], plain[name]));
  }
};

template <class Op>
Expected expected_of(const Case<Op>& c, const Values<double>& initial, const Pair& machines) {
  auto exact = initial;
  c.exact(c.op, exact);
  return {exact, evaluate(machines.cpu(), c, initial), low_values(c, initial)};
}

// What cut sums may add to the error: one ulp each.
double cut_bound(const OperandInfo& operand, std::span<const double> exact) {
  return static_cast<double>(operand.cuts) * ulp_of(operand.dtype, largest(exact));
}

// Two runs on the device. Error at most twice that of the expected results in this dtype and one ulp (1e-12
// in f64).
template <class Op>
void check_runs(const Case<Op>& c, const Values<double>& initial, const Expected& expected, Placing placing,
                const Pair& machines, Faults& faults) {
  Blocks first;
  for (const auto* run : {"first run", "second run"}) {
    const Placed<Op> placed(c, initial, machines.cuda(), placing);
    machines.cuda().backend.run(placed.op, machines.cuda().stream);
    const auto blocks = read_blocks(placed, machines.cuda());
    if (first.empty()) first = blocks;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto& operand = placed.operands[i];
      const auto& name = operand.info->name;
      check_bytes(operand, blocks[i], faults);
      compare_bits(run, operand, first[i], blocks[i], faults);
      if (operand.info->role == Role::input) continue;
      const double bound =
          expected.bound(*operand.info, c.dtype) + cut_bound(*operand.info, expected.exact[name]);
      compare_numbers(name, numbers_of(operand, blocks[i]), expected.exact[name], bound, faults);
    }
  }
}

// At addresses that 16 bytes divide the kernels read whole packs, and off them single elements: both are run.
template <class Op>
Faults check_case(const Case<Op>& c, const Pair& machines) {
  const auto initial = initial_values(c);
  const auto expected = expected_of(c, initial, machines);
  Faults faults;
  for (const auto placing : {Placing::guarded, Placing::aligned})
    check_runs(c, initial, expected, placing, machines, faults);
  return faults;
}

template <class Op>
Faults run_cases(Scale scale, DType dtype) {
  const Pair machines;
  Faults all;
  for (const auto& c : cases<Op>(scale)) {
    if (c.dtype != dtype) continue;
    for (const auto& found : {check_case(c, machines), check_sharing(c, machines.cuda())})
      for (const auto& fault : found) all.push_back(str(c.name(), ": ", fault));
  }
  return all;
}

constexpr std::array kDTypes{DType::f64, DType::f32, DType::bf16};

class GpuOps : public testing::Test {
 public:
  explicit GpuOps(std::function<Faults()> run) : run_(std::move(run)) {}
  void TestBody() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    for (const auto& fault : run_()) ADD_FAILURE() << fault;
  }

 private:
  std::function<Faults()> run_;
};

template <class Op>
void add_tests(const char* suite, Scale scale) {
  const auto all = cases<Op>(scale);
  for (const auto dtype : kDTypes) {
    const auto of_dtype = [dtype](const Case<Op>& c) { return c.dtype == dtype; };
    if (std::none_of(all.begin(), all.end(), of_dtype)) continue;
    const auto run = [scale, dtype] { return run_cases<Op>(scale, dtype); };
    testing::RegisterTest(suite, str(Op::kName, '_', dtype).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [run]() -> testing::Test* { return new GpuOps(run); });
  }
}

template <class... Ops>
bool add_all(const char* suite, Scale scale, OpList<Ops...>) {
  (add_tests<Ops>(suite, scale), ...);
  return true;
}

[[maybe_unused]] const bool kAdded = add_all("GpuOps", Scale::test, AllOps{}),
                            kEdgesAdded = add_all("GpuOpsEdges", Scale::edges, OpsWithEdges{});

TEST(GpuBackend, RefusesAStreamOfAnotherDevice) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto backend = make_cuda_backend(0);
  EXPECT_EQ(backend->device(), DeviceKind::cuda);
  const auto stream = make_cuda_stream(0);
  const auto memory = make_cuda_memory(0);
  CpuStream host;
  Fill fill;
  fill.x = empty(*memory, {3}, DType::f32, Tag::workspace, *stream);
  EXPECT_THROW(backend->run(fill, host), Error);
}

TEST(GpuBackend, TakesTheFastestWayOfAProduct) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const Pair machines(ProductChoice::fastest);
  for (const auto& c : cases<Gemm>(Scale::edges))
    for (const auto& fault : check_case(c, machines)) ADD_FAILURE() << c.name() << ": " << fault;
}

TEST(GpuBackend, RefusesADeviceThatIsNotThere) {
  EXPECT_THROW(make_cuda_backend(cuda_device_count()), Error);
}

}  // namespace
}  // namespace fivefold::cases
