// The arithmetic type of a storage type: double for double, else float.
#pragma once
#include <type_traits>

#include "core/types.h"

namespace fivefold::cpu {

template <class T>
using Accum = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace fivefold::cpu
