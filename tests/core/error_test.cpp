// Failed checks carry file, line and values; user errors are one sentence of their own kind.
#include "core/error.h"

#include <gtest/gtest.h>

namespace fivefold {
namespace {

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Error, CheckNamesPlaceConditionAndValues) {
  const int n = 3;
  const auto message = message_of([&] { FF_CHECK(n == 4, "n is ", n, " of ", 4); });
  EXPECT_NE(message.find("error_test.cpp:"), std::string::npos) << message;
  EXPECT_NE(message.find("n == 4"), std::string::npos) << message;
  EXPECT_NE(message.find("n is 3 of 4"), std::string::npos) << message;
}

TEST(Error, CheckEqPrintsBothSides) {
  const auto message = message_of([] { FF_CHECK_EQ(2 + 2, 5, "sum"); });
  EXPECT_NE(message.find("4 vs 5"), std::string::npos) << message;
  EXPECT_NE(message.find("sum"), std::string::npos) << message;
}

TEST(Error, PassingChecksEvaluateTheirOperandsOnceAndTheirMessageNever) {
  int evaluated = 0, formatted = 0;
  const auto describe = [&] { return str(++formatted); };
  FF_CHECK(++evaluated == 1, describe());
  FF_CHECK_EQ(++evaluated, 2, describe());
  EXPECT_EQ(evaluated, 2);
  EXPECT_EQ(formatted, 0);
}

TEST(Error, UserErrorsAreToldApart) {
  EXPECT_THROW(throw UserError("x"), Error);
  EXPECT_THROW(FF_CHECK(false), Error);
  try {
    FF_CHECK(false);
  } catch (const UserError&) {
    FAIL() << "a broken invariant is no user error";
  } catch (const Error&) {
  }
}

TEST(Error, StrConcatenatesAndKeepsNineDigits) {
  EXPECT_EQ(str("a", 1, ' ', 2.5), "a1 2.5");
  EXPECT_EQ(str(0.123456789), "0.123456789");
}

}  // namespace
}  // namespace fivefold
