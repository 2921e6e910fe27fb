// The op checks see what they are for: each kind of fault, put into a working op, is reported.
#include "tests/kernels/op_checks.h"

#include <gtest/gtest.h>

#include <limits>

namespace fivefold::cases {
namespace {

using Fault = std::function<void(const SwigluBackward&)>;

// The CPU backend, with something done behind every SwigluBackward.
class FaultyBackend final : public Implements<FaultyBackend, Backend, AllOps> {
 public:
  explicit FaultyBackend(Fault fault) : fault_(std::move(fault)) {}
  DeviceKind device() const override { return DeviceKind::cpu; }
  template <class Op>
  void execute(const Op& op, Stream& stream) {
    inner_->run(op, stream);
    if constexpr (std::is_same_v<Op, SwigluBackward>) fault_(op);
  }

 private:
  std::unique_ptr<Backend> inner_ = make_cpu_backend({});
  Fault fault_;
};

Case<SwigluBackward> a_case() {
  for (auto& c : cases<SwigluBackward>(Scale::test))
    if (c.parameters() == "T=5,F=33" && c.dtype == DType::f64) return c;
  fail(__FILE__, __LINE__, "no such case", "");
}

class OpChecks : public testing::Test {
 protected:
  Machine good() { return {*good_, *memory_, stream_}; }
  Machine bad(Fault fault) {
    bad_ = std::make_unique<FaultyBackend>(std::move(fault));
    return {*bad_, *memory_, stream_};
  }
  // All faults of the value check on one machine, joined.
  std::string value_faults(Fault fault) {
    const std::array machines{bad(std::move(fault))};
    return joined(check_value(a_case(), machines));
  }
  static std::string joined(const Faults& faults) {
    std::string all;
    for (const auto& fault : faults) all += fault + '\n';
    return all;
  }

 private:
  CpuStream stream_;
  std::shared_ptr<Memory> memory_ = make_cpu_memory();
  std::unique_ptr<Backend> good_ = make_cpu_backend({}), bad_;
};

bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_F(OpChecks, AcceptAWorkingOp) {
  EXPECT_EQ(value_faults([](const SwigluBackward&) {}), "");
}

TEST_F(OpChecks, SeeAWrongElement) {
  const auto faults = value_faults([](const SwigluBackward& op) { op.dx.data<double>()[40] *= 1 + 1e-9; });
  EXPECT_TRUE(mentions(faults, "dx[40] of 330")) << faults;
}

TEST_F(OpChecks, SeeAnUnwrittenElement) {
  const auto faults = value_faults(
      [](const SwigluBackward& op) { op.dx.data<double>()[7] = std::numeric_limits<double>::quiet_NaN(); });
  EXPECT_TRUE(mentions(faults, "dx[7]")) << faults;
}

TEST_F(OpChecks, SeeWritesBehindAndBeforeAnOperand) {
  const auto behind = value_faults([](const SwigluBackward& op) { op.dx.data<double>()[op.dx.count()] = 0; });
  const auto before = value_faults([](const SwigluBackward& op) { op.dy.data<double>()[-1] = 0; });
  EXPECT_TRUE(mentions(behind, "wrote outside of dx")) << behind;
  EXPECT_TRUE(mentions(before, "wrote outside of dy")) << before;
}

TEST_F(OpChecks, SeeAChangedInput) {
  const auto faults = value_faults([](const SwigluBackward& op) { op.x.data<double>()[3] += 1; });
  EXPECT_TRUE(mentions(faults, "changed the input x")) << faults;
}

TEST_F(OpChecks, SeeBitsThatDependOnTheMachine) {
  const auto nudge = [](const SwigluBackward& op) {
    auto& x = op.dx.data<double>()[0];
    x = std::nextafter(x, 1e9);
  };
  const std::array machines{good(), bad(nudge)};
  const auto faults = joined(check_value(a_case(), machines));
  EXPECT_TRUE(mentions(faults, "dx has other bits: run 1")) << faults;
}

TEST_F(OpChecks, SeeAWrongGradient) {
  const auto wrong = bad([](const SwigluBackward& op) { op.dx.data<double>()[12] += 1e-4; });
  EXPECT_TRUE(mentions(joined(check_gradient(a_case(), wrong)), "gradient of x[12]"));
  EXPECT_EQ(joined(check_gradient(a_case(), good())), "");
}

TEST_F(OpChecks, SeeAnOpThatCannotShareMemory) {
  const auto wrong = bad([](const SwigluBackward& op) {
    if (op.dx.raw() == op.x.raw()) op.dx.data<double>()[0] = 1;
  });
  EXPECT_TRUE(mentions(joined(check_sharing(a_case(), wrong)), "dx shares x"));
  EXPECT_EQ(joined(check_sharing(a_case(), good())), "");
}

TEST_F(OpChecks, SeeACheckThatAcceptsTooMuch) {
  auto c = cases<BiasGradient>(Scale::test).front();
  EXPECT_EQ(joined(check_refusals(c, good())), "");
  for (auto& operand : c.operands) operand.free_rows = false;
  EXPECT_TRUE(mentions(joined(check_refusals(c, good())), "check() accepts dy with one more row"));
}

TEST_F(OpChecks, MeasureTheBoundOfLowPrecision) {
  const OperandInfo operand{.name = "y", .dtype = DType::bf16};
  const std::vector<double> exact{1.0, 3.0}, low{1.0, 3.01};
  EXPECT_NEAR(error_bound(operand, DType::bf16, exact, low), 2 * 0.01 + 0x1p-6,
              1e-12);  // bf16 keeps 8 bits: 3 +- 2^-6
}

}  // namespace
}  // namespace fivefold::cases
