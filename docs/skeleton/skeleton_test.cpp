// A test: what must hold, in the smallest case that shows it. A case of the fault list has its number here.
#include <gtest/gtest.h>

#include "core/memory.h"
#include "docs/skeleton/op.h"

namespace fivefold {
namespace {

TEST(Skeleton, ScaleRowsRefusesAnotherShape) {
  CpuStream stream;
  const auto memory = make_cpu_memory();
  const auto rows = [&](std::int64_t count) {
    return empty(*memory, {count, 4}, DType::f32, Tag::workspace, stream);
  };
  EXPECT_NO_THROW((ScaleRows{.x = rows(3), .y = rows(3)}.check()));
  EXPECT_THROW((ScaleRows{.x = rows(3), .y = rows(2)}.check()), Error);
}

}  // namespace
}  // namespace fivefold
