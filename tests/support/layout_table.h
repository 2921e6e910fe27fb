// Layouts of eight ranks in which every axis, schedule, stage of ZeRO and form of context parallelism takes
// part somewhere: what a device or a transport is tried on.
#pragma once
#include "tests/support/trajectory.h"

namespace fivefold::test {

// For models of at least four layers and four heads.
std::vector<Layout> layouts_of_eight();

}  // namespace fivefold::test
