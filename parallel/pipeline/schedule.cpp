// Stage maps, the data flow between actions, and schedules as text.
#include "parallel/pipeline/schedule.h"

#include <algorithm>
#include <charconv>

namespace fivefold {

namespace {

// Takes a number without a sign off the front of `text`.
std::optional<int> take_number(std::string_view& text) {
  unsigned short value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::string_view take_letters(std::string_view& text) {
  const auto end = std::min(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), text.size());
  const auto letters = text.substr(0, end);
  text.remove_prefix(end);
  return letters;
}

// Takes what stands before the next `separator`, and the separator.
std::string_view take_until(std::string_view& text, char separator) {
  const auto end = std::min(text.find(separator), text.size());
  const auto front = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return front;
}

int number_from(std::string_view text) {
  auto rest = text;
  const auto value = take_number(rest);
  FF_CHECK(value && rest.empty(), "'", text, "' is no number");
  return *value;
}

constexpr std::string_view kHeader = "micro-batches ", kMap = ", stages on ranks ";

void read_header(std::string_view line, Schedule& schedule) {
  const auto map = line.find(kMap);
  FF_CHECK(line.starts_with(kHeader) && map != line.npos, "a schedule starts with '", kHeader, "N", kMap,
           "...', not '", line, "'");
  schedule.micro_batches = number_from(line.substr(kHeader.size(), map - kHeader.size()));
  auto ranks = line.substr(map + kMap.size());
  schedule.map.rank_of.clear();
  while (!ranks.empty()) schedule.map.rank_of.push_back(number_from(take_until(ranks, ' ')));
}

}  // namespace

std::string_view word_for(Act act) {
  constexpr auto kWords = std::to_array<std::string_view>(
      {"forward", "backward", "backward_input", "backward_weight", "send_activation", "receive_activation",
       "send_gradient", "receive_gradient", "unshard", "reshard", "exchange_tied", "reduce_grads"});
  static_assert(kWords.size() == kEnumNames<Act>.size());
  return kWords[static_cast<std::size_t>(act)];
}

std::string to_text(const Action& action) {
  const auto text = str(action.stage, action.act);
  return action.micro_batch == kWholeStep ? text : str(text, action.micro_batch);
}

Action action_from_text(std::string_view text) {
  auto rest = text;
  const auto stage = take_number(rest);
  const auto letters = take_letters(rest);
  const auto micro_batch = rest.empty() ? std::optional(kWholeStep) : take_number(rest);
  const auto names = enum_names<Act>();
  const auto act = std::find(names.begin(), names.end(), letters);
  FF_CHECK(stage && act != names.end() && micro_batch && rest.empty(), "'", text, "' is no action");
  return {static_cast<Act>(act - names.begin()), *stage, *micro_batch};
}

std::vector<int> StageMap::stages_of(int rank) const {
  std::vector<int> out;
  for (int s = 0; s < stages(); ++s)
    if (rank_of[s] == rank) out.push_back(s);
  return out;
}

StageMap loop_map(int ranks, int chunks) {
  FF_CHECK(ranks > 0 && chunks > 0, ranks, " ranks x ", chunks, " chunks");
  StageMap map{.ranks = ranks, .rank_of = {}};
  for (int s = 0; s < ranks * chunks; ++s) map.rank_of.push_back(s % ranks);
  return map;
}

StageMap vee_map(int ranks) {
  auto map = loop_map(ranks, 1);
  for (int rank = ranks; rank-- > 0;) map.rank_of.push_back(rank);
  return map;
}

std::string to_text(const Schedule& schedule) {
  auto text = str(kHeader, schedule.micro_batches, ", stages on ranks");
  for (const auto rank : schedule.map.rank_of) text += str(' ', rank);
  for (std::size_t r = 0; r < schedule.lists.size(); ++r) {
    text += str("\nrank ", r, ':');
    for (const auto& action : schedule.lists[r]) text += ' ' + to_text(action);
  }
  return text + '\n';
}

Schedule schedule_from_text(std::string_view text) {
  Schedule schedule;
  read_header(take_until(text, '\n'), schedule);
  while (!text.empty()) {
    auto line = take_until(text, '\n');
    const auto label = str("rank ", schedule.lists.size());
    FF_CHECK_EQ(std::string(take_until(line, ':')), label, "one line a rank");
    auto& list = schedule.lists.emplace_back();
    while (!line.empty())
      if (const auto word = take_until(line, ' '); !word.empty()) list.push_back(action_from_text(word));
  }
  schedule.map.ranks = static_cast<int>(schedule.lists.size());
  return schedule;
}

std::optional<Product> product_of(const Action& action) {
  if (!is_compute(action.act) || action.act == Act::backward_weight) return std::nullopt;
  return Product{action.act != Act::forward, action.stage, action.micro_batch};
}

Inputs inputs_of(const Action& action, int stages) {
  const auto [act, stage, m] = action;
  const Product output{false, stage, m}, gradient{true, stage, m};
  if (act == Act::backward_weight) return {gradient, std::nullopt};
  if (act == Act::forward)
    return {stage > 0 ? std::optional(Product{false, stage - 1, m}) : std::nullopt, std::nullopt};
  return {output, stage + 1 < stages ? std::optional(Product{true, stage + 1, m}) : std::nullopt};
}

int maker_of(const Product& product, const StageMap& map) { return map.rank_of[product.stage]; }

int taker_of(const Product& product, const StageMap& map) {
  const int to = product.gradient ? product.stage - 1 : product.stage + 1;
  return 0 <= to && to < map.stages() ? map.rank_of[to] : -1;
}

Product carried_by(const Action& transfer) {
  switch (transfer.act) {
    case Act::send_activation:
      return {false, transfer.stage, transfer.micro_batch};
    case Act::receive_activation:
      return {false, transfer.stage - 1, transfer.micro_batch};
    case Act::send_gradient:
      return {true, transfer.stage, transfer.micro_batch};
    case Act::receive_gradient:
      return {true, transfer.stage + 1, transfer.micro_batch};
    default:
      fail(__FILE__, __LINE__, "a transfer is needed", to_text(transfer));
  }
}

}  // namespace fivefold
