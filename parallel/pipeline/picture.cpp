// Draws timelines and lists in plain characters.
#include "parallel/pipeline/picture.h"

#include <algorithm>
#include <cmath>

namespace fivefold {

namespace {

class Picture {
 public:
  Picture(const Schedule& schedule, const Simulation& simulation, const PictureOptions& options)
      : schedule_(schedule), simulation_(simulation), tick_(options.tick) {
    if (tick_ <= 0) tick_ = shortest();
    columns_ = column(simulation.makespan);
    clipped_ = options.max_columns > 0 && options.max_columns < columns_;
    if (clipped_) columns_ = options.max_columns;
    for (const auto& rank : simulation.timeline)
      for (const auto& timed : rank) width_ = std::max(width_, cell(timed.action).size() + 1);
  }

  std::string draw() const {
    auto text = head() + '\n';
    for (int rank = 0; rank < schedule_.map.ranks; ++rank) text += row(rank) + '\n';
    return text;
  }

 private:
  int column(double time) const { return static_cast<int>(std::lround(time / tick_)); }
  int chunks() const { return schedule_.map.stages() / schedule_.map.ranks; }
  std::string cell(const Action& action) const {
    return chunks() == 1 ? str(action.act, action.micro_batch) : to_text(action);
  }

  double shortest() const {
    double out = simulation_.makespan;
    for (const auto& rank : simulation_.timeline)
      for (const auto& timed : rank) out = std::min(out, timed.end - timed.begin);
    return out;
  }

  std::string head() const {
    const auto counted = [](int n, const char* what) { return str(n, ' ', what, n == 1 ? "" : "s"); };
    const auto percent = std::round(simulation_.bubble() * 1000) / 10;
    return str(counted(schedule_.map.ranks, "rank"), " x ", counted(chunks(), "chunk"), ", ",
               schedule_.micro_batches, schedule_.micro_batches == 1 ? " micro-batch" : " micro-batches",
               ": makespan ", simulation_.makespan, ", bubble ", percent, " %");
  }

  std::string label(int rank) const {
    const auto number = [](const std::string& text, std::size_t width) {
      return std::string(width - std::min(width, text.size()), ' ') + text;
    };
    const auto digits = str(schedule_.map.ranks - 1).size();
    const auto widest = str(simulation_.largest_peak().together).size();
    return str("rank ", number(str(rank), digits), " holds ",
               number(str(simulation_.peaks[rank].together), widest), " | ");
  }

  std::string row(int rank) const {
    std::string line(static_cast<std::size_t>(columns_) * width_, ' ');
    for (int c = 0; c < columns_; ++c) line[c * width_] = '.';
    for (const auto& timed : simulation_.timeline[rank]) draw(timed, line);
    line.erase(line.find_last_not_of(' ') + 1);
    return label(rank) + line + (clipped_ ? " ..." : "");
  }

  void draw(const TimedAction& timed, std::string& line) const {
    const auto text = cell(timed.action);
    const auto first = static_cast<std::size_t>(column(timed.begin)) * width_;
    const auto end = std::max(static_cast<std::size_t>(column(timed.end)) * width_, first + width_) - 1;
    for (auto i = first; i < std::min(end, line.size()); ++i) {
      if (i - first < text.size())
        line[i] = text[i - first];
      else
        line[i] = end - first < width_ ? ' ' : '-';
    }
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  double tick_;
  int columns_ = 0;
  bool clipped_ = false;
  std::size_t width_ = 0;
};

constexpr std::size_t kActionsAround = 6;  // shown before and after the one in brackets

}  // namespace

std::string picture(const Schedule& schedule, const Simulation& simulation, const PictureOptions& options) {
  return Picture(schedule, simulation, options).draw();
}

std::string progress_text(const ActionList& list, std::size_t at) {
  const auto first = at > kActionsAround ? at - kActionsAround : 0;
  const auto end = std::min(at + kActionsAround + 1, list.size());
  std::string text = first > 0 ? str("(", first, " before) ") : "";
  for (auto i = first; i < end; ++i) {
    const auto word = to_text(list[i]);
    text += (i == at ? '[' + word + ']' : word) + ' ';
  }
  if (at >= list.size()) return text + "[end]";
  text.pop_back();
  return end < list.size() ? str(text, " (", list.size() - end, " more)") : text;
}

std::string progress_text(const Schedule& schedule, const std::vector<std::size_t>& at) {
  std::string text;
  for (std::size_t rank = 0; rank < at.size(); ++rank)
    text += str(rank == 0 ? "" : "\n", "rank ", rank, ": ", progress_text(schedule.lists[rank], at[rank]));
  return text;
}

}  // namespace fivefold
