// A plan as people read it.
#include <algorithm>
#include <set>

#include "launcher/plan.h"
#include "launcher/text_table.h"
#include "parallel/pipeline/picture.h"

namespace fivefold {

namespace {

constexpr int kShownRanks = 8, kPictureRanks = 16, kPictureWidth = 110;

using Lines = std::vector<std::vector<std::string>>;

std::size_t largest(const Plan& plan) {
  const auto less = [](const RankPlan& a, const RankPlan& b) {
    return a.memory.peak_total < b.memory.peak_total;
  };
  return static_cast<std::size_t>(std::max_element(plan.ranks.begin(), plan.ranks.end(), less) -
                                  plan.ranks.begin());
}

// pp ranks that get a column: all, or the ends, the middle and the largest.
std::vector<std::size_t> shown(const Plan& plan) {
  const auto n = plan.ranks.size();
  std::set<std::size_t> out{largest(plan)};
  for (std::size_t r = 0; r < n; ++r)
    if (n <= kShownRanks || r < 2 || r + 2 >= n || r == n / 2) out.insert(r);
  return {out.begin(), out.end()};
}

std::vector<std::string> head(const char* first, const Plan& plan) {
  std::vector<std::string> line{first};
  for (const auto r : shown(plan)) line.push_back(str("pp ", r));
  return line;
}

std::string summary(const Plan& plan, const Config& config) {
  const auto& p = config.parallel;
  const auto& t = config.train;
  const auto world = plan.mesh.world();
  const auto count = parameter_count(config.model);
  const auto most = std::max_element(plan.ranks.begin(), plan.ranks.end(),
                                     [](auto& a, auto& b) { return a.parameters < b.parameters; });
  return text_table(
      {{"layout", str(to_string(plan.mesh), " = ", world, world == 1 ? " rank" : " ranks", "; zero ", p.zero,
                      ", ", p.schedule, ", ", name_of(t.precision), ", recompute ", t.recompute)},
       {"step", str(t.global_batch, " sequences of ", sequence_length(config), " tokens over ",
                    plan.mesh.data_ranks(), plan.mesh.data_ranks() == 1 ? " data rank: " : " data ranks: ",
                    plan.micro_batches, plan.micro_batches == 1 ? " micro-batch of " : " micro-batches of ",
                    t.micro_batch, ", ", plan.shape.rows, " rows a rank")},
       {"parameters",
        str(text_of_count(static_cast<double>(count)), " (", count, "); a rank computes with at most ",
            text_of_count(static_cast<double>(most->parameters)))},
       {"model flops", str(text_of_count(plan.step_flops / static_cast<double>(config.train.global_batch *
                                                                               sequence_length(config)),
                                         "FLOP"),
                           " a token, ", text_of_count(plan.step_flops, "FLOP"), " a step, ",
                           text_of_count(plan.step_flops / world, "FLOP"), " of it a rank")}});
}

std::string memory_text(const Plan& plan) {
  Lines lines{head("memory of a rank at most", plan)};
  const auto add = [&](std::string name, auto&& bytes) {
    std::vector<std::string> line{std::move(name)};
    for (const auto r : shown(plan)) line.push_back(text_of_bytes(bytes(plan.ranks[r].memory)));
    lines.push_back(std::move(line));
  };
  for (std::size_t t = 0; t < kTags; ++t) {
    const bool used =
        std::any_of(plan.ranks.begin(), plan.ranks.end(), [&](auto& r) { return r.memory.peak[t] > 0; });
    if (used)
      add(std::string(name_of(static_cast<Tag>(t))), [&](const MemoryReport& m) { return m.peak[t]; });
  }
  add("together", [](const MemoryReport& m) { return m.peak_total; });
  const auto most = largest(plan);
  return str(text_table(lines, 1), "largest: pp rank ", most, " (mesh position ", plan.ranks[most].position,
             ") with ", text_of_bytes(plan.ranks[most].memory.peak_total), "\n");
}

std::string name_of_group(const DeviceMesh::Wanted& group) {
  if (group.axes.empty()) return "all ranks: norm, counts";
  std::string text;
  for (const auto axis : group.axes) text += str(text.empty() ? "" : "*", name_of(axis));
  if (group.parts > 0) text += str(" in ", group.parts, " parts");
  const bool storage = group.purpose == "weights" && group.axes.front() != Axis::replicate;
  return str(text, ": ",
             storage                      ? "weights, gradients"
             : group.purpose == "weights" ? "gradients"
                                          : group.purpose);
}

std::string traffic_text(const Plan& plan) {
  Lines lines{head("a rank sends in a step", plan)};
  lines.front().insert(lines.front().begin() + 1, "ranks");
  std::vector<const GroupTraffic*> groups;
  const auto same = [](const GroupTraffic& a, const GroupTraffic& b) {
    return name_of_group(a.group) == name_of_group(b.group);
  };
  for (const auto& rank : plan.ranks)
    for (const auto& traffic : rank.traffic)
      if (std::none_of(groups.begin(), groups.end(), [&](auto* g) { return same(*g, traffic); }))
        groups.push_back(&traffic);
  for (const auto* group : groups) {
    std::vector<std::string> line{name_of_group(group->group), str(group->ranks)};
    for (const auto r : shown(plan)) {
      const auto& all = plan.ranks[r].traffic;
      const auto found = std::find_if(all.begin(), all.end(), [&](auto& t) { return same(t, *group); });
      line.push_back(found == all.end() ? "-" : text_of_bytes(found->bytes));
    }
    lines.push_back(std::move(line));
  }
  return groups.empty() ? "one rank sends nothing\n" : text_table(lines, 1);
}

// The shortest forward of a stage that has blocks: one column.
double column(const Plan& plan) {
  double shortest = plan.simulation.makespan;
  for (const auto& rank : plan.simulation.timeline)
    for (const auto& [action, begin, end] : rank)
      if (action.act == Act::forward &&
          plan.pipeline.split[static_cast<std::size_t>(action.stage)].blocks() > 0)
        shortest = std::min(shortest, end - begin);
  return shortest;
}

std::string schedule_text(const Plan& plan) {
  const int chunks = plan.pipeline.map.stages() / plan.mesh.pp;
  const auto cell =
      str("F ", plan.micro_batches - 1, chunks > 1 ? str(plan.pipeline.map.stages() - 1) : "").size();
  return picture(plan.schedule, plan.simulation,
                 {.tick = column(plan), .max_columns = kPictureWidth / static_cast<int>(cell)});
}

std::string pipeline_text(const Plan& plan) {
  std::string text = stage_map_text(plan.pipeline.split, plan.pipeline.map);
  if (!text.ends_with('\n')) text += '\n';
  if (plan.mesh.pp == 1) return text;
  text += "\n";
  if (plan.mesh.pp <= kPictureRanks) text += schedule_text(plan);
  const auto even = simulate(plan.schedule).bubble();
  return str(text, "bubble ", text_of_share(plan.simulation.bubble()), " by FLOPs (", text_of_share(even),
             " if all stages were alike)\n");
}

}  // namespace

std::string to_text(const Plan& plan, const Config& config) {
  std::string text = str(summary(plan, config), '\n', pipeline_text(plan), '\n', memory_text(plan), '\n',
                         traffic_text(plan));
  for (const auto& warning : plan.warnings) text += str("\nwarning: ", warning);
  return plan.warnings.empty() ? text : text + '\n';
}

}  // namespace fivefold
