// The ends of the model where one case is not enough: vocabulary parts, low precision, offsets beyond 2^32.
#include <sys/mman.h>

#include <cmath>

#include "tests/kernels/cpu_fixture.h"

namespace fivefold {
namespace {

class TokensTest : public CpuFixture {
 protected:
  struct Losses {
    double sum;
    Tensor gradient;
  };
  // Cross entropy over equal parts of the columns, as `parts` ranks compute it.
  Losses cross_entropy(const Tensor& logits, const Numbers& targets, std::int64_t parts, double scale = 1) {
    const auto rows = logits.dim(0), width = logits.dim(1) / parts;
    const auto accum = accum_dtype(logits.dtype());
    const auto target = tensor({rows}, DType::i32, targets), stats = tensor({parts, rows, 3}, accum);
    std::vector<Tensor> columns;
    for (std::int64_t p = 0; p < parts; ++p) {
      columns.push_back(columns_of(logits, p * width, width));
      run(VocabStats{.logits = columns.back(),
                     .target = target,
                     .stats = stats.rows(p, p + 1).view({rows, 3}),
                     .first_column = p * width,
                     .columns = width});
    }
    Losses result{0, tensor(logits.shape(), logits.dtype())};
    for (std::int64_t p = 0; p < parts; ++p) {
      const auto loss = filled({1}, DType::f64, 0);
      run(CrossEntropy{.logits = columns[static_cast<std::size_t>(p)],
                       .target = target,
                       .stats = stats,
                       .loss = loss,
                       .first_column = p * width,
                       .columns = width,
                       .scale = scale});
      EXPECT_EQ(get(loss, 0), p == 0 ? get(loss, 0) : result.sum) << "ranks disagree";
      result.sum = get(loss, 0);
      for (std::int64_t i = 0; i < rows * width; ++i)
        put(result.gradient, i / width * logits.dim(1) + p * width + i % width,
            get(columns[static_cast<std::size_t>(p)], i));
    }
    return result;
  }
  Tensor columns_of(const Tensor& t, std::int64_t first, std::int64_t count) {
    Numbers part;
    for (std::int64_t i = 0; i < t.dim(0) * count; ++i)
      part.push_back(get(t, i / count * t.dim(1) + first + i % count));
    return tensor({t.dim(0), count}, t.dtype(), part);
  }
};

// B18: the logits of two vocabulary parts.
TEST_F(TokensTest, TwoPartsOfTheVocabularyGiveTheWholeLoss) {
  const Numbers expected{0.0321, 0.0871, 0.2369, -0.3561};
  for (const auto dtype : {DType::f64, DType::f32})
    for (const std::int64_t parts : {1, 2, 4}) {
      const auto result = cross_entropy(tensor({1, 4}, dtype, {0, 1, 2, 3}), {3}, parts);
      // Half of the last digit given, and one unit in the last place of a sum in f32.
      EXPECT_NEAR(result.sum, 0.4401897, 5e-8 + (dtype == DType::f32 ? 0x1p-23 : 0.0)) << parts;
      for (std::int64_t i = 0; i < 4; ++i)
        EXPECT_NEAR(get(result.gradient, i), expected[static_cast<std::size_t>(i)], 5e-5);
    }
}

TEST_F(TokensTest, PartsAgreeWithTheWholeInF64) {
  const auto logits = normal({5, 24}, DType::f64, 3, 1);
  const Numbers targets{0, 23, kNoTarget, 11, 12};
  const auto whole = cross_entropy(logits, targets, 1, 0.5);
  for (const std::int64_t parts : {2, 3, 8}) {
    const auto result = cross_entropy(logits, targets, parts, 0.5);
    EXPECT_NEAR(result.sum, whole.sum, 1e-12 * whole.sum);
    EXPECT_LE(largest_difference(result.gradient, whole.gradient), 1e-12);
  }
}

TEST_F(TokensTest, GradientIsTheSlopeOfTheLoss) {
  const auto logits = normal({3, 7}, DType::f64, 2, 1);
  const Numbers targets{6, kNoTarget, 0};
  const auto gradient = cross_entropy(logits, targets, 1, 0.25).gradient;
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < logits.count(); ++i) {
    const double x = get(logits, i);
    put(logits, i, x + kStep);
    const double above = cross_entropy(logits, targets, 1).sum;
    put(logits, i, x - kStep);
    const double slope = (above - cross_entropy(logits, targets, 1).sum) / (2 * kStep);
    put(logits, i, x);
    EXPECT_NEAR(get(gradient, i), 0.25 * slope, 1e-9) << i;
  }
}

// B54: bf16 logits give the loss of the same numbers in f32, and both that of f64.
TEST_F(TokensTest, SoftMaxOfBf16LogitsIsF32) {
  constexpr std::int64_t kRows = 64, kColumns = 64000;
  const auto logits = normal({kRows, kColumns}, DType::bf16, 4, 1);
  Numbers targets(kRows);
  for (std::size_t r = 0; r < targets.size(); ++r) targets[r] = static_cast<double>(r * 991);
  const auto loss_of = [&](DType dtype) {
    const auto target = tensor({kRows}, DType::i32, targets), loss = filled({1}, DType::f64, 0);
    const auto stats = tensor({1, kRows, 3}, accum_dtype(dtype)), typed = converted(logits, dtype);
    run(VocabStats{.logits = typed, .target = target, .stats = stats.view({kRows, 3}), .columns = kColumns});
    run(CrossEntropy{.logits = typed,
                     .target = target,
                     .stats = stats,
                     .loss = loss,
                     .columns = kColumns,
                     .gradient = false});
    return get(loss, 0);
  };
  const double low = loss_of(DType::bf16), single = loss_of(DType::f32), exact = loss_of(DType::f64);
  EXPECT_EQ(low, single);
  EXPECT_LE(std::abs(low - exact), 1e-6 * exact);
}

// B75: tokens outside the rows held here, and outside every vocabulary, read nothing and write nothing.
TEST_F(TokensTest, TokensOfOtherPartsGiveZeroRows) {
  const auto ids = tensor({6}, DType::i32, {9, 10, 14, 15, -1, 2147483647});
  const auto table = filled({5, 3}, DType::f32, 2), y = tensor({6, 3}, DType::f32),
             d_table = filled({5, 3}, DType::f32, 0);
  run(EmbeddingForward{.ids = ids, .table = table, .y = y, .first_row = 10});
  EXPECT_EQ(numbers(y), (Numbers{0, 0, 0, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  run(EmbeddingBackward{.ids = ids, .dy = y, .d_table = d_table, .first_row = 10});
  EXPECT_EQ(numbers(d_table), (Numbers{2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2}));
}

// Memory that exists once it is touched, so that tensors beyond 2^32 elements fit any machine.
class SparseBuffer final : public Buffer {
 public:
  explicit SparseBuffer(std::int64_t bytes)
      : Buffer(static_cast<std::byte*>(mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
               bytes, {}) {}
  ~SparseBuffer() override { munmap(data(), static_cast<std::size_t>(bytes())); }
};
Tensor sparse(const Shape& shape, DType dtype) {
  return {std::make_shared<SparseBuffer>(shape.count() * size_of(dtype)), 0, shape, dtype};
}

// B74: logits of 65536 x 50257 have 3.3 billion elements; 32-bit offsets would wrap.
TEST_F(TokensTest, OffsetsBeyondTwoToThe32) {
  constexpr std::int64_t kWidth = 1 << 20, kRows = (std::int64_t{1} << 32) / kWidth + 2, kLast = kRows - 1;
  const auto table = sparse({kRows, kWidth}, DType::bf16), y = tensor({1, kWidth}, DType::bf16);
  const auto last = tensor({1}, DType::i32, {static_cast<double>(kLast)});
  put(table, kLast * kWidth + 5, 3);
  run(EmbeddingForward{.ids = last, .table = table, .y = y});
  EXPECT_EQ(get(y, 5), 3);
  const auto d_table = sparse({kRows, kWidth}, DType::f32);
  run(EmbeddingBackward{.ids = last, .dy = y, .d_table = d_table});
  EXPECT_EQ(get(d_table, kLast * kWidth + 5), 3);
  EXPECT_EQ(get(d_table, 5), 0);

  const auto target = filled({kRows}, DType::i32, 1), stats = tensor({1, kRows, 3}, DType::f32),
             loss = filled({1}, DType::f64, 0);
  put(table, kLast * kWidth + 1, 2);
  run(VocabStats{.logits = table, .target = target, .stats = stats.view({kRows, 3}), .columns = 2});
  const auto row_loss = tensor({kRows}, DType::f32);
  run(CrossEntropy{.logits = table,
                   .target = target,
                   .stats = stats,
                   .loss = loss,
                   .row_loss = row_loss,
                   .columns = 2,
                   .gradient = false});
  EXPECT_NEAR(get(row_loss, 0), std::log(2.0), 1e-6);
  EXPECT_NEAR(get(row_loss, kLast), std::log(1 + std::exp(-2.0)), 1e-6);
}

}  // namespace
}  // namespace fivefold
