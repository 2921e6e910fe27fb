// A pipeline schedule is data: where each virtual stage lives, and one list of actions per pp rank.
// Generators, passes, checks and the simulator are pure functions of it; one executor runs it.
#pragma once
#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "core/enum_names.h"
#include "core/error.h"

namespace fivefold {

// What a rank does next. A stage's backward is either `backward`, or `backward_input` (the gradient that the
// previous stage waits for) and, at any later time, `backward_weight`.
enum class Act : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_activation,     // of the stage's output to the next stage
  receive_activation,  // of the stage's input
  send_gradient,       // of the stage's input to the previous stage
  receive_gradient,    // of the stage's output
  unshard,             // the stage's weights are collected
  reshard,             // and dropped
  exchange_tied,       // first and last stage tell each other their gradients of a shared parameter
  reduce_grads         // gradients start to be summed over the ranks that hold the stage
};
template <>
inline constexpr auto kEnumNames<Act> = std::to_array<std::string_view>({"F", "B", "I", "W", "SA", "RA", "SG",
                                                                         "RG", "U", "D", "T", "R"});

// "forward", "receive_gradient": for people.
std::string_view word_for(Act act);

constexpr bool is_compute(Act act) { return act <= Act::backward_weight; }
constexpr bool is_send(Act act) { return act == Act::send_activation || act == Act::send_gradient; }
constexpr bool is_receive(Act act) { return act == Act::receive_activation || act == Act::receive_gradient; }
constexpr bool is_transfer(Act act) { return is_send(act) || is_receive(act); }

constexpr int kWholeStep = -1;  // in place of a micro-batch: an action that belongs to all of them

struct Action {
  Act act = Act::forward;
  int stage = 0;
  int micro_batch = 0;
  auto operator<=>(const Action&) const = default;
};
std::string to_text(const Action& action);  // "2F0": stage, act, micro-batch; "2R": of the whole step
// Throws Error for anything that to_text does not write.
Action action_from_text(std::string_view text);

// Which pp rank runs which virtual stage. Stages are numbered along the data flow, so a message of stage s
// goes to s + 1 whoever runs it.
struct StageMap {
  int ranks = 1;
  std::vector<int> rank_of{0};  // by stage
  int stages() const { return static_cast<int>(rank_of.size()); }
  std::vector<int> stages_of(int rank) const;  // ascending
  bool operator==(const StageMap&) const = default;
};
// Stage s on rank s % ranks, `chunks` times round: one chunk is the plain line, more are interleaved.
StageMap loop_map(int ranks, int chunks);
// Two chunks, down and up again: stage s and stage 2 ranks - 1 - s on rank s, so first and last stage share a
// rank.
StageMap vee_map(int ranks);

using ActionList = std::vector<Action>;

struct Schedule {
  StageMap map;
  int micro_batches = 1;
  std::vector<ActionList> lists;  // by pp rank
  bool operator==(const Schedule&) const = default;
};
// The first line names map and micro-batches, then one line a rank: "rank 0: 0F0 0F1 0B0 0B1".
std::string to_text(const Schedule& schedule);
// The inverse. Throws Error.
Schedule schedule_from_text(std::string_view text);

// What passes between actions: the output of a stage, or the gradient of its input.
struct Product {
  bool gradient = false;
  int stage = 0;
  int micro_batch = 0;
  auto operator<=>(const Product&) const = default;
};
// What a compute action makes; a weight gradient stays where it is.
std::optional<Product> product_of(const Action& action);
// What must exist before a compute action may start.
struct Inputs {
  std::optional<Product> first, second;
};
Inputs inputs_of(const Action& action, int stages);
// The rank that makes a product, and the rank that a transfer of it goes to (-1: nobody's).
int maker_of(const Product& product, const StageMap& map);
int taker_of(const Product& product, const StageMap& map);
// Of a transfer action: what it carries.
Product carried_by(const Action& transfer);

// A value per product.
template <class T>
class ProductTable {
 public:
  ProductTable(int stages, int micro_batches, T value)
      : micro_batches_(micro_batches), values_(std::size_t(2) * stages * micro_batches, value) {}
  T& operator[](const Product& p) {
    return values_[(std::size_t(2) * p.stage + (p.gradient ? 1 : 0)) * micro_batches_ + p.micro_batch];
  }

 private:
  int micro_batches_;
  std::vector<T> values_;
};

// Throws Error, naming rank and action, unless: every stage has a rank; every (stage, micro-batch) runs
// forward exactly once, and either backward or both its halves exactly once (or, in an evaluation, no stage
// runs any backward), on the stage's rank and in that order; each act of a stage takes the micro-batches in
// ascending order, which makes all schedules add gradients alike; a stage's reductions ascend, each after the
// gradients it sums; and transfers, where there are any, are exactly those that the map asks for. That the
// lists also finish is for replay.h to say.
void validate(const Schedule& schedule);

}  // namespace fivefold
