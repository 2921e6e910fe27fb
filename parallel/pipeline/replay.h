// Whether lists finish when they are run on machines that forgive nothing.
#pragma once
#include "parallel/pipeline/schedule.h"

namespace fivefold {

// Runs all lists, each strictly in order and one action at a time: a send ends when its receive is the peer's
// next action, so does an exchange with the other stage's, and a compute action needs its inputs made on this
// rank or received by it. Nothing is buffered, and a stage's own collectives may stand behind any transfer,
// as on one NCCL launch queue per device. Whether the lists finish does not depend on timing. Throws Error
// that shows every rank's list, where it stopped and what it waits for.
void replay(const Schedule& schedule);

}  // namespace fivefold
