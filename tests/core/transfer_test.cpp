// Values between host and tensors: conversion, rounding, and byte copies that may overlap.
#include "core/transfer.h"

#include <gtest/gtest.h>

#include "core/copy.h"

namespace fivefold {
namespace {

class TransferTest : public testing::Test {
 protected:
  std::shared_ptr<Memory> memory_ = make_cpu_memory();
  CpuStream stream_;
};

TEST_F(TransferTest, RoundTripsEveryFloatingType) {
  const std::vector<double> values{0, -1.5, 3, 0.25, 1024, -0.0625};
  for (auto dtype : {DType::f64, DType::f32, DType::bf16}) {
    const auto t = upload(*memory_, values, {2, 3}, dtype, Tag::data, stream_);
    EXPECT_EQ(t.dtype(), dtype);
    EXPECT_EQ(to_host(t, stream_), values) << dtype;
  }
}

TEST_F(TransferTest, RoundsToTheTypesPrecision) {
  const std::vector<double> third{1.0 / 3};
  EXPECT_EQ(to_host(upload(*memory_, third, {1}, DType::f32, Tag::data, stream_), stream_)[0],
            double{1.0f / 3});
  EXPECT_EQ(to_host(upload(*memory_, third, {1}, DType::bf16, Tag::data, stream_), stream_)[0], 0.333984375);
}

TEST_F(TransferTest, IntegersAndWrongCounts) {
  const std::vector<std::int32_t> ids{5, -1, 2147483647};
  const auto t = upload(*memory_, ids, {3}, Tag::data, stream_);
  EXPECT_EQ(to_host(t, stream_), (std::vector<double>{5, -1, 2147483647}));
  EXPECT_THROW(write(t, std::vector<std::int32_t>{1, 2}, stream_), Error);
  const std::vector<double> halves{-32768, 7, 32767};
  EXPECT_EQ(to_host(upload(*memory_, halves, {3}, DType::i16, Tag::data, stream_), stream_), halves);
}

TEST_F(TransferTest, CopiesMayOverlap) {
  const auto t = upload(*memory_, std::vector<double>{0, 1, 2, 3, 4, 5}, {6}, DType::f64, Tag::data, stream_);
  copy_bytes(t.rows(1, 5), t.rows(0, 4), stream_);
  EXPECT_EQ(to_host(t, stream_), (std::vector<double>{0, 0, 1, 2, 3, 5}));
  copy_bytes(t, t, stream_);
  EXPECT_THROW(copy_bytes(t.rows(0, 2), t.rows(0, 3), stream_), Error);
}

}  // namespace
}  // namespace fivefold
