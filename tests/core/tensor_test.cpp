// Windows into buffers: sharing, bounds, element types.
#include "core/tensor.h"

#include <gtest/gtest.h>

#include <numeric>

namespace fivefold {
namespace {

class TensorTest : public testing::Test {
 protected:
  Tensor counting(Shape shape) {
    auto t = empty(*memory_, shape, DType::f32, Tag::activations, stream_);
    std::iota(t.data<float>(), t.data<float>() + t.count(), 0.0f);
    return t;
  }
  std::shared_ptr<Memory> memory_ = make_cpu_memory();
  CpuStream stream_;
};

TEST_F(TensorTest, DefaultIsNoTensor) {
  EXPECT_FALSE(Tensor());
  EXPECT_TRUE(counting({2}));
}

TEST_F(TensorTest, CopiesAndViewsShareElements) {
  const auto t = counting({2, 3});
  const auto copy = t;
  const auto flat = t.view({6});
  flat.data<float>()[4] = 40;
  EXPECT_EQ(copy.data<float>()[4], 40);
  EXPECT_THROW(t.view({5}), Error);
}

TEST_F(TensorTest, RowsAreAWindow) {
  const auto t = counting({4, 3});
  const auto rows = t.rows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.data<float>()[0], 3);
  EXPECT_EQ(rows.rows(1, 2).data<float>()[2], 8);
  EXPECT_EQ(t.rows(4, 4).count(), 0);
  EXPECT_THROW(t.rows(3, 5), Error);
  EXPECT_THROW(t.rows(-1, 2), Error);
  EXPECT_THROW(t.rows(2, 1), Error);
}

TEST_F(TensorTest, SliceCountsElements) {
  const auto t = counting({4, 3});
  const auto slice = t.slice(5, 2);
  EXPECT_EQ(slice.shape(), (Shape{2}));
  EXPECT_EQ(slice.data<float>()[1], 6);
  EXPECT_THROW(t.slice(11, 2), Error);
}

TEST_F(TensorTest, ElementTypeMustMatch) {
  const auto t = counting({2});
  EXPECT_THROW(t.data<double>(), Error);
  EXPECT_THROW(t.data<std::int32_t>(), Error);
}

TEST_F(TensorTest, MustFitItsBuffer) {
  const auto buffer = memory_->allocate(16, Tag::data, stream_);
  EXPECT_EQ(Tensor(buffer, 8, {2}, DType::f32).bytes(), 8);
  EXPECT_THROW(Tensor(buffer, 8, {3}, DType::f32), Error);
  EXPECT_THROW(Tensor(buffer, -4, {1}, DType::f32), Error);
}

TEST_F(TensorTest, NeighboursJoinAndStrangersDoNot) {
  const auto t = counting({6, 2});
  const std::vector<Tensor> parts{t.rows(0, 1), t.rows(1, 4), t.rows(4, 6)};
  const auto whole = joined(parts);
  EXPECT_EQ(whole.shape(), (Shape{6, 2}));
  EXPECT_EQ(whole.raw(), t.raw());
  const std::vector<Tensor> gap{t.rows(0, 1), t.rows(2, 4)};
  EXPECT_THROW(joined(gap), Error);
}

TEST_F(TensorTest, BufferIsFreedWithItsLastTensor) {
  {
    const auto t = counting({100});
    const auto window = t.rows(10, 20);
    EXPECT_EQ(memory_->report().now_total, 400);
  }
  EXPECT_EQ(memory_->report().now_total, 0);
}

}  // namespace
}  // namespace fivefold
