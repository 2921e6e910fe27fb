// Runs the lists against the data flow alone.
#include "parallel/pipeline/simulate.h"

#include <algorithm>

#include "parallel/pipeline/picture.h"

namespace fivefold {

namespace {

class HeldMemory {
 public:
  explicit HeldMemory(std::span<const StageMemory> sizes) : sizes_(sizes) {}

  void run(const Action& action) {
    const auto size = sizes_.empty() ? StageMemory{} : sizes_[action.stage];
    if (action.act == Act::forward) before_input_ += size.before_input;
    if (action.act == Act::backward_input) before_weight_ += size.before_weight;
    if (action.act == Act::backward || action.act == Act::backward_input) before_input_ -= size.before_input;
    if (action.act == Act::backward_weight) before_weight_ -= size.before_weight;
    peak_.before_input = std::max(peak_.before_input, before_input_);
    peak_.before_weight = std::max(peak_.before_weight, before_weight_);
    peak_.together = std::max(peak_.together, before_input_ + before_weight_);
  }
  PipelinePeak peak() const { return peak_; }

 private:
  std::span<const StageMemory> sizes_;
  double before_input_ = 0, before_weight_ = 0;
  PipelinePeak peak_;
};

constexpr double kNotYet = -1;

class Simulator {
 public:
  Simulator(const Schedule& schedule, const PipelineCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        made_at_(schedule.map.stages(), schedule.micro_batches, kNotYet),
        at_(schedule.lists.size(), 0),
        free_at_(schedule.lists.size(), 0) {
    result_.timeline.resize(schedule.lists.size());
    result_.busy.resize(schedule.lists.size());
  }

  Simulation run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int rank = 0; rank < schedule_.map.ranks; ++rank)
        while (step(rank)) progress = true;
    }
    for (int rank = 0; rank < schedule_.map.ranks; ++rank)
      FF_CHECK_EQ(at_[rank], schedule_.lists[rank].size(), "the schedule cannot finish:\n",
                  progress_text(schedule_, at_));
    for (const auto& time : free_at_) result_.makespan = std::max(result_.makespan, time);
    return std::move(result_);
  }

 private:
  // When what `rank` needs is there, or kNotYet.
  double ready_at(int rank, const std::optional<Product>& input) {
    if (!input) return 0;
    const double made = made_at_[*input];
    return made == kNotYet || maker_of(*input, schedule_.map) == rank ? made : made + costs_.transfer;
  }

  bool step(int rank) {
    const auto& list = schedule_.lists[rank];
    if (at_[rank] == list.size()) return false;
    const auto& action = list[at_[rank]];
    if (is_compute(action.act) && !compute(rank, action)) return false;
    ++at_[rank];
    return true;
  }

  bool compute(int rank, const Action& action) {
    const auto inputs = inputs_of(action, schedule_.map.stages());
    const double first = ready_at(rank, inputs.first), second = ready_at(rank, inputs.second);
    if (first == kNotYet || second == kNotYet) return false;
    const double begin = std::max({free_at_[rank], first, second});
    const double duration = duration_of(action, costs_);
    free_at_[rank] = begin + duration;
    if (const auto product = product_of(action)) made_at_[*product] = free_at_[rank];
    result_.timeline[rank].push_back({action, begin, free_at_[rank]});
    result_.busy[rank] += duration;
    return true;
  }

  const Schedule& schedule_;
  const PipelineCosts& costs_;
  ProductTable<double> made_at_;
  std::vector<std::size_t> at_;
  std::vector<double> free_at_;
  Simulation result_;
};

}  // namespace

double duration_of(const Action& action, const PipelineCosts& costs) {
  const auto c = costs.of(action.stage);
  switch (action.act) {
    case Act::forward:
      return c.forward;
    case Act::backward:
      return c.input + c.weight;
    case Act::backward_input:
      return c.input;
    case Act::backward_weight:
      return c.weight;
    default:
      fail(__FILE__, __LINE__, "a compute action is needed", to_text(action));
  }
}

double Simulation::bubble() const {
  double all = 0;
  for (const auto time : busy) all += time;
  return 1 - all / (static_cast<double>(busy.size()) * makespan);
}

PipelinePeak Simulation::largest_peak() const {
  PipelinePeak out;
  for (const auto& peak : peaks) {
    out.before_input = std::max(out.before_input, peak.before_input);
    out.before_weight = std::max(out.before_weight, peak.before_weight);
    out.together = std::max(out.together, peak.together);
  }
  return out;
}

Simulation simulate(const Schedule& schedule, const PipelineCosts& costs,
                    std::span<const StageMemory> memory) {
  const auto stages = static_cast<std::size_t>(schedule.map.stages());
  FF_CHECK(costs.stages.empty() || costs.stages.size() == stages, costs.stages.size(), " costs for ", stages,
           " stages");
  FF_CHECK(memory.empty() || memory.size() == stages, memory.size(), " sizes for ", stages, " stages");
  for (const auto& c : costs.stages)
    FF_CHECK(c.forward > 0 && c.input > 0 && c.weight > 0, "costs are above zero");
  FF_CHECK(costs.transfer >= 0, "a transfer of ", costs.transfer);
  auto out = Simulator(schedule, costs).run();
  for (const auto& rank : out.timeline) {
    HeldMemory held(memory);
    for (const auto& timed : rank) held.run(timed.action);
    out.peaks.push_back(held.peak());
  }
  return out;
}

}  // namespace fivefold
