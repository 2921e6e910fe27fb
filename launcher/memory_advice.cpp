// Each change is tried on a copy of the configuration.
#include "launcher/memory_advice.h"

#include <algorithm>
#include <optional>

#include "core/cuda.h"
#include "launcher/device_choice.h"
#include "launcher/plan.h"
#include "launcher/supported.h"
#include "launcher/text_table.h"

namespace fivefold {

namespace {

constexpr std::size_t kShown = 3;
constexpr std::int64_t kMostLossRows = 2048, kFewestLossRows = 128;
constexpr double kSpare = 0.02;  // of the room, for what a pool loses to rounding and gaps

// A setting of less memory; those of one `key` stand together, the mildest first, and one of them is enough.
struct Change {
  std::string key, value;
  std::function<void(Config&)> apply;
  std::string text() const { return str(key, '=', value); }
};

// The peaks of the rank that needs most.
MemoryReport largest(const Config& config, int world) {
  const auto plan = make_plan(config, world);
  return std::max_element(plan.ranks.begin(), plan.ranks.end(),
                          [](auto& a, auto& b) { return a.memory.peak_total < b.memory.peak_total; })
      ->memory;
}

std::optional<MemoryReport> planned(const Config& config, int world) {
  try {
    check(config, world);
    check_supported(config);
    return largest(config, world);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

template <class T>
Change setting(std::string key, std::string value, T TrainConfig::*member, T to) {
  return {std::move(key), std::move(value), [=](Config& c) { c.train.*member = to; }};
}

void add_activations(const TrainConfig& t, std::vector<Change>& out) {
  for (const auto policy : {RecomputePolicy::selective, RecomputePolicy::full})
    if (policy > t.recompute)
      out.push_back(setting("train.recompute", str(policy), &TrainConfig::recompute, policy));
  for (auto rows = t.micro_batch / 2; rows >= 1; rows /= 2)
    out.push_back(setting("train.micro_batch", str(rows), &TrainConfig::micro_batch, rows));
  for (std::int64_t rows = kMostLossRows; rows >= kFewestLossRows; rows /= 2)
    if (t.loss_rows == 0 || rows < t.loss_rows)
      out.push_back(setting("train.loss_rows", str(rows), &TrainConfig::loss_rows, rows));
}

void add_state(const Config& c, std::vector<Change>& out) {
  const auto& t = c.train;
  const bool bf16 = t.precision == DType::bf16;
  const auto narrow = std::optional(DType::bf16);
  if (bf16 && (t.master == MasterStorage::automatic || t.master == MasterStorage::f32))
    out.push_back(setting("train.master", "split", &TrainConfig::master, MasterStorage::split));
  if (t.precision != DType::f64 && t.moments != narrow)
    out.push_back(setting("train.moments", "bf16", &TrainConfig::moments, narrow));
  if (bf16 && t.gradients != narrow)
    out.push_back(setting("train.gradients", "bf16", &TrainConfig::gradients, narrow));
  for (int stage = c.parallel.zero + 1; stage <= 3; ++stage)
    out.push_back({"parallel.zero", str(stage), [stage](Config& x) { x.parallel.zero = stage; }});
}

struct Tried {
  Change change;
  MemoryReport memory;
};

class Advisor {
 public:
  Advisor(const Config& config, int world, std::int64_t room)
      : config_(config), world_(world), room_(room), now_(largest(config, world)) {}

  std::string text() const {
    std::string out = str("a training step of this configuration needs ", text_of_bytes(now_.peak_total),
                          " on its largest rank; what needs less:\n");
    const auto tried = best();
    std::vector<std::vector<std::string>> lines;
    for (const auto& t : tried) {
      lines.push_back({"  " + t.change.text(), saving(t.memory)});
      if (fits(t.memory)) lines.back().push_back("fits");
    }
    if (tried.empty()) lines.push_back({"  no setting of one rank"});
    return out + text_table(lines) + together(tried) + more_ranks();
  }

 private:
  bool fits(const MemoryReport& memory) const {
    return static_cast<double>(memory.peak_total) <= (1 - kSpare) * static_cast<double>(room_);
  }

  std::string saving(const MemoryReport& memory) const {
    std::size_t most = 0;
    const auto less = [&](std::size_t tag) { return now_.peak[tag] - memory.peak[tag]; };
    for (std::size_t tag = 1; tag < kTags; ++tag)
      if (less(tag) > less(most)) most = tag;
    return str(text_of_bytes(now_.peak_total - memory.peak_total), " less (", name_of(static_cast<Tag>(most)),
               "): ", text_of_bytes(memory.peak_total));
  }

  // Of each key the mildest change that fits, else the one that saves most.
  std::vector<Tried> by_key() const {
    std::vector<Change> changes;
    add_activations(config_.train, changes);
    add_state(config_, changes);
    std::vector<Tried> out;
    for (const auto& change : changes) {
      const bool known = !out.empty() && out.back().change.key == change.key;
      if (known && fits(out.back().memory)) continue;
      auto config = config_;
      change.apply(config);
      const auto memory = planned(config, world_);
      const auto before = known ? out.back().memory.peak_total : now_.peak_total;
      if (!memory || memory->peak_total >= before) continue;
      if (known) out.pop_back();
      out.push_back({change, *memory});
    }
    return out;
  }

  std::vector<Tried> best() const {
    auto out = by_key();
    std::stable_sort(out.begin(), out.end(),
                     [](auto& a, auto& b) { return a.memory.peak_total < b.memory.peak_total; });
    if (out.size() > kShown) out.erase(out.begin() + kShown, out.end());
    return out;
  }

  std::string together(const std::vector<Tried>& tried) const {
    const bool enough = std::any_of(tried.begin(), tried.end(), [&](auto& t) { return fits(t.memory); });
    if (tried.size() < 2 || enough) return {};
    auto config = config_;
    for (const auto& t : tried) t.change.apply(config);
    const auto memory = planned(config, world_);
    return memory ? str("together: ", saving(*memory), fits(*memory) ? ", fits\n" : "\n") : "";
  }

  // ZeRO 1 at least cuts the optimizer's state over more ranks.
  std::string more_ranks() const {
    auto config = config_;
    auto& p = config.parallel;
    const auto shape = mesh_shape(p, world_);
    p.shard = 2 * shape.shard, p.replicate = shape.replicate;
    const auto memory = planned(config, 2 * world_);
    if (!memory || memory->peak_total >= now_.peak_total) return {};
    return str("on ", 2 * world_, " ranks with parallel.shard=", p.shard, ": ", saving(*memory),
               fits(*memory) ? ", fits\n" : "\n");
  }

  const Config& config_;
  int world_;
  std::int64_t room_;
  MemoryReport now_;
};

}  // namespace

std::string memory_advice(const Config& config, int world, std::int64_t room) {
  return Advisor(config, world, room).text();
}

int with_memory_advice(const Config& config, int world, const std::function<int()>& f) {
  try {
    return f();
  } catch (const OutOfMemory& error) {
    auto here = config;
    if (wants_gpus(config.train) && cuda_device_count() > 0) here.train.device = DeviceChoice::cuda;
    throw Error(str(error.what(), memory_advice(here, world, error.room())));
  }
}

}  // namespace fivefold
