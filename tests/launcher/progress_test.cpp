// What people see of a run: texts of the bar and of the line, golden.
#include "launcher/progress.h"

#include <gtest/gtest.h>

namespace fivefold {
namespace {

TEST(Progress, Rates) {
  EXPECT_EQ(format_rate(0), "0");
  EXPECT_EQ(format_rate(949.6), "950");
  EXPECT_EQ(format_rate(12345), "12.3k");
  EXPECT_EQ(format_rate(1.204e6), "1.20M");
}

TEST(Progress, Times) {
  EXPECT_EQ(format_seconds(-3), "0s");
  EXPECT_EQ(format_seconds(7.6), "8s");
  EXPECT_EQ(format_seconds(59.6), "1m00s");
  EXPECT_EQ(format_seconds(62), "1m02s");
  EXPECT_EQ(format_seconds(7500), "2h05m");
  EXPECT_EQ(format_seconds(360000), "100h00m");
}

const ProgressFacts kFacts{.attempt = 120,
                           .attempts = 1000,
                           .loss = 3.21449,
                           .grad_norm = 1.2341,
                           .lr = 3e-4,
                           .tokens_per_second = 12345,
                           .seconds_left = 62};

TEST(Progress, BarFitsItsColumns) {
  EXPECT_EQ(progress_bar(kFacts, 200),
            " 12%|##                      | 120/1000  loss 3.2145  12.3k tok/s  1m02s left");
  EXPECT_EQ(progress_bar(kFacts, 20).size(), 20u);
  EXPECT_EQ(progress_bar(kFacts, -1).size(), 1u);
  EXPECT_EQ(progress_bar({.attempt = 5, .attempts = 5}, 30), "100%|########################|");
  EXPECT_EQ(progress_bar({.attempt = 9, .attempts = 5}, 30).substr(4),
            "|########################|");  // more than all
}

TEST(Progress, LineHoldsEverything) {
  EXPECT_EQ(progress_line(kFacts),
            "step 120/1000  loss 3.2145  grad norm 1.234  lr 3.00e-04  12.3k tok/s  1m02s left");
}

TEST(Progress, BarIsSilentWhereItIsNotEnabled) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar(false);
    bar.show(kFacts);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  {
    ProgressBar bar(true);
    bar.show(kFacts);
  }  // leaves a clean line behind
  const auto text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("120/1000"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\033[K"));
}

}  // namespace
}  // namespace fivefold
