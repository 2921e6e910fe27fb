// The chain of the optimizer's ops: squared sums -> control -> update.
#include <limits>

#include "tests/kernels/cpu_fixture.h"
#include "tests/kernels/optim_steps.h"

namespace fivefold {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class OptimTest : public CpuFixture {
 protected:
  // One step of one parameter with clip 1.
  void step(const Tensor& gradient) {
    const auto sums = filled({1}, DType::f64, 0);
    run(SquaredSum{.parts = {{.x = gradient}}, .sums = sums});
    run(StepControl{.sums = sums, .control = control_, .clip = 1});
    run(AdamW{.parts = {{.weight = {.master = master_, .copy = {}, .remainder = {}},
                         .gradient = gradient,
                         .m = m_,
                         .v = v_}},
              .control = control_,
              .lr = 0.5});
  }
  double control(int which) { return get(control_, which); }

  Tensor control_ = filled({StepControl::kCount}, DType::f64, 0);
  Tensor master_ = filled({100}, DType::f32, 2), m_ = filled({100}, DType::f32, 0),
         v_ = filled({100}, DType::f32, 0);
};

// B08: 100 elements of 1e20 have the norm 1e21 and count as 0.1 each; Adam's first step has the size of the
// learning rate.
TEST_F(OptimTest, HugeGradientsAreClipped) {
  step(filled({100}, DType::f32, 1e20));
  EXPECT_NEAR(control(StepControl::kNorm) / 1e21, 1, 1e-7);
  EXPECT_NEAR(get(m_, 0), 0.1 * 0.1, 1e-8);  // (1 - beta1) x 0.1
  EXPECT_NEAR(get(master_, 99), 1.5, 1e-6);
  EXPECT_EQ(control(StepControl::kStep), 1);
}

// B08: infinity or NaN changes nothing but the count of skipped steps.
TEST_F(OptimTest, NonFiniteGradientsSkipTheStep) {
  step(filled({100}, DType::f32, 0.01));
  const auto master = numbers(master_), m = numbers(m_), v = numbers(v_);
  for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    auto gradient = filled({100}, DType::f32, 0.01);
    put(gradient, 57, bad);
    step(gradient);
    EXPECT_EQ(control(StepControl::kApply), 0);
  }
  EXPECT_EQ(numbers(master_), master);
  EXPECT_EQ(numbers(m_), m);
  EXPECT_EQ(numbers(v_), v);
  EXPECT_EQ(control(StepControl::kStep), 1);
  EXPECT_EQ(control(StepControl::kSkipped), 3);
  step(filled({100}, DType::f32, 0.01));
  EXPECT_EQ(control(StepControl::kStep), 2);
  EXPECT_EQ(control(StepControl::kApply), 1);
}

// B64: with beta2 = 0.95 a forgotten step count would make the 1001st update 2.236 times too big.
TEST_F(OptimTest, UpdatesFollowTheStepCount) {
  const auto update_at = [&](double applied) {
    const auto master = filled({1}, DType::f64, 0);
    const auto control = tensor({StepControl::kCount}, DType::f64, {1, 1, 1, applied, 0});
    run(AdamW{.parts = {{.weight = {.master = master, .copy = {}, .remainder = {}},
                         .gradient = filled({1}, DType::f64, 0.3),
                         .m = filled({1}, DType::f64, 0.3),
                         .v = filled({1}, DType::f64, 0.09)}},
              .control = control,
              .lr = 1});
    return get(master, 0);
  };
  EXPECT_NEAR(update_at(1001), -1, 1e-7);
  EXPECT_NEAR(update_at(1) / update_at(1001), 10 * std::sqrt(0.05), 1e-6);
}

TEST_F(OptimTest, SplitMastersAreMastersToTheLastBit) {
  for (const auto& fault : cases::check_split_steps(machine())) ADD_FAILURE() << fault;
}

TEST_F(OptimTest, PartsDoNotDependOnEachOther) {
  for (const auto& fault : cases::check_parts_alone(machine())) ADD_FAILURE() << fault;
}

}  // namespace
}  // namespace fivefold
