// Every case of every op of AllOps, as one test each: OpValue, OpGradient, OpRefusal. An op without cases
// does not compile.
#include <gtest/gtest.h>

#include "tests/kernels/op_checks.h"

namespace fivefold::cases {
namespace {

// CPU machines of 1 and 3 threads that cut even small operands.
class CpuMachines {
 public:
  std::span<const Machine> all() const { return machines_; }
  const Machine& one() const { return machines_[0]; }

 private:
  CpuStream stream_;
  std::shared_ptr<Memory> memory_ = make_cpu_memory();
  std::unique_ptr<Backend> one_ = make_cpu_backend({.threads = 1, .thread_work = 1}),
                           three_ = make_cpu_backend({.threads = 3, .thread_work = 1});
  std::array<Machine, 2> machines_{Machine{*one_, *memory_, stream_}, Machine{*three_, *memory_, stream_}};
};

template <class Op>
Faults run_value(const Case<Op>& c) {
  const CpuMachines machines;
  auto faults = check_value(c, machines.all());
  const auto sharing = check_sharing(c, machines.one());
  faults.insert(faults.end(), sharing.begin(), sharing.end());
  return faults;
}
template <class Op>
Faults run_gradient(const Case<Op>& c) {
  if (!c.objective || c.gradients.empty()) return {"a backward op has an objective and gradients"};
  return check_gradient(c, CpuMachines().one());
}
template <class Op>
Faults run_refusals(const Case<Op>& c) {
  return check_refusals(c, CpuMachines().one());
}

class CaseTest : public testing::Test {
 public:
  CaseTest(std::string name, std::function<Faults()> run) : name_(std::move(name)), run_(std::move(run)) {}
  void TestBody() override {
    for (const auto& fault : run_())
      ADD_FAILURE() << fault << "\nrerun: test_kernels --gtest_filter='" << name_ << "'";
  }

 private:
  std::string name_;
  std::function<Faults()> run_;
};

void add_test(const char* suite, const std::string& name, std::function<Faults()> run) {
  testing::RegisterTest(
      suite, name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
      [full = str(suite, '.', name), run]() -> testing::Test* { return new CaseTest(full, run); });
}

template <class Op>
void add_tests() {
  const bool backward = Op::kName.find("backward") != std::string_view::npos;
  const auto all = cases<Op>(Scale::test);
  FF_CHECK(!all.empty(), Op::kName, " has no cases");
  for (const auto& c : all) {
    add_test("OpValue", c.name(), [c] { return run_value(c); });
    if (c.dtype != DType::f64) continue;
    if (backward || !c.gradients.empty()) add_test("OpGradient", c.name(), [c] { return run_gradient(c); });
    add_test("OpRefusal", c.name(), [c] { return run_refusals(c); });
  }
}

template <class... Ops>
bool add_all(OpList<Ops...>) {
  (add_tests<Ops>(), ...);
  return true;
}

[[maybe_unused]] const bool kAdded = add_all(AllOps{});

}  // namespace
}  // namespace fivefold::cases
