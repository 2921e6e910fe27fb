// Every kind of value: what is accepted, what is refused, and that what is written reads back.
#include "launcher/values.h"

#include <gtest/gtest.h>

namespace fivefold {
namespace {

template <class T>
void accepts(const Codec<T>& codec, const std::string& text, const T& value) {
  const auto parsed = codec.parse(text);
  ASSERT_TRUE(parsed.has_value()) << text;
  EXPECT_EQ(*parsed, value) << text;
  const auto again = codec.parse(codec.format(value));
  ASSERT_TRUE(again.has_value()) << codec.format(value);
  EXPECT_EQ(*again, value) << codec.format(value);
}

template <class T>
void refuses(const Codec<T>& codec, const std::vector<std::string>& texts) {
  for (const auto& text : texts) EXPECT_FALSE(codec.parse(text).has_value()) << "'" << text << "'";
}

TEST(Values, Booleans) {
  accepts(boolean(), "true", true);
  accepts(boolean(), "false", false);
  refuses(boolean(), {"", "1", "yes", "True"});
}

TEST(Values, Integers) {
  accepts(integer(0), "0", std::int64_t{0});
  accepts(integer(0), "5000000000", std::int64_t{5000000000});  // B73
  refuses(integer(1), {"0", "-1", "1.5", "1e3", "4x", "", " 4", "99999999999999999999"});
  accepts(small_integer(1, 3), "3", 3);
  refuses(small_integer(1, 3), {"4", "0"});
  refuses(small_integer(1), {"3000000000"});
  accepts(seed_number(), "18446744073709551615", std::uint64_t{18446744073709551615u});
  refuses(seed_number(), {"-1"});
}

TEST(Values, AutoIsZero) {
  accepts(automatic_or(1), "auto", 0);
  accepts(automatic_or(1), "2", 2);
  EXPECT_EQ(automatic_or(1).format(0), "auto");
  refuses(automatic_or(1), {"0", "Auto"});
}

TEST(Values, NumbersKeepEveryBit) {
  accepts(number(0), "3e-4", 3e-4);
  accepts(number(0), "0.1", 0.1);
  accepts(positive_number(), "1e-300", 1e-300);
  accepts(positive_number(), "0.30000000000000004", 0.30000000000000004);
  EXPECT_EQ(number(0).format(500000), "500000");
  EXPECT_EQ(number(0).format(0.0003), "0.0003");
  EXPECT_EQ(number(0).format(1e-8), "1e-08");
  refuses(positive_number(), {"0", "-1", "nan", "inf", "1,5", ""});
  refuses(number(0), {"-0.1"});
}

TEST(Values, SizesTakeUnits) {
  accepts(size_in_bytes(), "2GiB", std::int64_t{2} << 30);
  accepts(size_in_bytes(), "3 MiB", std::int64_t{3} << 20);
  accepts(size_in_bytes(), "4096", std::int64_t{4096});
  accepts(size_in_bytes(), "1000B", std::int64_t{1000});
  accepts(size_in_bytes(), "0B", std::int64_t{0});
  EXPECT_EQ(size_in_bytes().format(1 << 30), "1GiB");
  EXPECT_EQ(size_in_bytes().format(1536), "1536B");
  refuses(size_in_bytes(), {"2GB", "2gib", "-1KiB", "GiB", "1.5GiB", "9000000000GiB", ""});
}

TEST(Values, TimesTakeUnits) {
  accepts(duration_s(), "10m", 600.0);
  accepts(duration_s(), "1h30m", 5400.0);
  accepts(duration_s(), "2d", 172800.0);
  accepts(duration_s(), "45s", 45.0);
  accepts(duration_s(), "0.5s", 0.5);
  accepts(duration_s(), "90", 90.0);
  EXPECT_EQ(duration_s().format(5400), "90m");
  EXPECT_EQ(duration_s().format(0), "0s");
  refuses(duration_s(), {"m", "30m1h", "-5s", "10ms", "5 minutes", ""});
}

TEST(Values, Lists) {
  using Names = std::vector<std::string>;
  accepts(names(), "", Names{});
  accepts(names(), "model.context, data.sequence", Names{"model.context", "data.sequence"});
  refuses(names(), {",", "a,,b", "a,"});
  accepts(counts(), "3,3,2", std::vector<std::int64_t>{3, 3, 2});
  refuses(counts(), {"3,0", "3;2"});
}

TEST(Values, Choices) {
  accepts(choice<ScheduleKind>(), "zb-v", ScheduleKind::zb_v);
  accepts(choice<Reshard>(), "auto", Reshard::automatic);
  refuses(choice<ScheduleKind>(), {"ZB-V", "", "zb"});
  for (const auto& name : choice<LrDecay>().allowed)
    EXPECT_TRUE(choice<LrDecay>().parse(name).has_value()) << name;
  accepts(float_dtype(), "bf16", DType::bf16);
  refuses(float_dtype(), {"i32", "u8", "f16"});
  accepts(storage_dtype(), "auto", std::optional<DType>());
  accepts(storage_dtype(), "f32", std::optional(DType::f32));
  refuses(storage_dtype(), {"", "i32"});
}

TEST(Values, RopeScalings) {
  using Type = RopeScalingType;
  accepts(rope_scaling(), "none", RopeScaling{});
  accepts(rope_scaling(), "linear,factor=4", RopeScaling{.type = Type::linear, .factor = 4});
  accepts(rope_scaling(), "llama3, factor=8, original_context=8192",
          RopeScaling{.type = Type::llama3, .factor = 8, .original_context = 8192});
  accepts(rope_scaling(),
          "yarn,factor=4,original_context=64,beta_fast=16,attention_factor=1.5,truncate=false",
          RopeScaling{.type = Type::yarn,
                      .factor = 4,
                      .original_context = 64,
                      .beta_fast = 16,
                      .attention_factor = 1.5,
                      .truncate = false});
  EXPECT_EQ(rope_scaling().format({}), "none");
  refuses(rope_scaling(),
          {"", "dynamic", "linear,beta_fast=3", "linear,factor", "yarn,factor=x", "none,factor=2"});
}

TEST(Values, ListsOfWordsReadLikeASentence) {
  EXPECT_EQ(list_of({"a"}), "a");
  EXPECT_EQ(list_of({"a", "b"}), "a or b");
  EXPECT_EQ(list_of({"a", "b", "c"}), "a, b or c");
}

}  // namespace
}  // namespace fivefold
