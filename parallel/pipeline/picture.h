// Schedules for people: rank rows over time, and where lists that cannot go on have stopped.
#pragma once
#include "parallel/pipeline/simulate.h"

namespace fivefold {

struct PictureOptions {
  double tick = 1;      // time of one column; 0: that of the shortest action
  int max_columns = 0;  // later ones are cut off; 0: all are drawn
};

// A head line (ranks, chunks, micro-batches, makespan, bubble), then a row per rank: what it holds at most
// (stages x micro-batches, or in the units of the simulation's memory) and its actions over time. An action
// is written where it begins and drawn out to its end with '-'; '.' is idle. "F3" is micro-batch 3's forward;
// where ranks have several stages, "5F3" is that of stage 5.
std::string picture(const Schedule& schedule, const Simulation& simulation,
                    const PictureOptions& options = {});

// A row per rank: its list around position `at[rank]`, where it stands, in brackets.
std::string progress_text(const Schedule& schedule, const std::vector<std::size_t>& at);
// The list of one rank in the same way.
std::string progress_text(const ActionList& list, std::size_t at);

}  // namespace fivefold
