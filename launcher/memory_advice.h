// What to change when memory runs out, and what each change would save: computed by dry runs.
#pragma once
#include <functional>
#include <string>

#include "launcher/config.h"

namespace fivefold {

// The three settings that save most of the planned peak of the largest rank, each with what it saves and
// whether it fits `room` bytes with 2 % to spare (0: not known); what they save together where none fits
// alone; and what twice the ranks would do. Takes as long as a dozen plans.
std::string memory_advice(const Config& config, int world, std::int64_t room);

// Runs `f`. An OutOfMemory that it throws goes on as an Error with the advice added.
int with_memory_advice(const Config& config, int world, const std::function<int()>& f);

}  // namespace fivefold
