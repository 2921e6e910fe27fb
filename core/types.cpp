// Names of dtypes and printing of shapes.
#include "core/types.h"

namespace fivefold {

namespace {
constexpr std::array<std::string_view, 6> kDTypeNames{"f64", "f32", "bf16", "i32", "u8", "i16"};
}

std::string_view name_of(DType t) { return kDTypeNames[static_cast<std::size_t>(t)]; }

DType dtype_from(std::string_view name) {
  for (std::size_t i = 0; i < kDTypeNames.size(); ++i)
    if (kDTypeNames[i] == name) return static_cast<DType>(i);
  throw UserError(str("a dtype is one of f64, f32, bf16, i32, u8, i16, not '", name, "'"));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int d = 0; d < shape.rank(); ++d) out << (d ? ", " : "") << shape[d];
  return out << ']';
}

}  // namespace fivefold
