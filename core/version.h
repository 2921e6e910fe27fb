// The program's version, as --version prints it.
#pragma once

namespace fivefold {
inline constexpr const char* kVersion = "0.1.0";
}
