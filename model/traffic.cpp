// Counts uses, multiplies with sizes.
#include "model/traffic.h"

#include <map>

#include "parallel/context/traffic.h"

namespace fivefold {

namespace {

using Bytes = std::int64_t;

// Parameters that are gathered and reduced together, as this rank holds them.
struct Unit {
  std::vector<const Param*> params;
  bool whole = false;        // its weights are there
  std::int64_t gathers = 0;  // in the step
};

struct OwnStage {
  int number = 0;
  StageLayers layers;
  std::optional<Unit> embedding, head;
  std::vector<Unit> blocks;
};

Bytes all_reduced(int ranks, Bytes bytes) { return 2 * (ranks - 1) * bytes / ranks; }

class RankTraffic {
 public:
  RankTraffic(const TrafficModel& m, const MeshLayout& mesh, int position)
      : m_(m),
        mesh_(mesh),
        pp_rank_(mesh.coordinate(position, Axis::pp)),
        params_(place_parameters(m.model, mesh, position)) {
    for (const int stage : m.pipeline.map.stages_of(pp_rank_)) stages_.push_back(own_stage(stage));
  }

  std::vector<GroupTraffic> all() {
    activations();
    context();
    for (const auto& action : m_.schedule.lists[static_cast<std::size_t>(pp_rank_)]) use_weights(action);
    for (auto* unit : units()) weights_and_gradients(*unit);
    pipeline();
    scalars();
    std::vector<GroupTraffic> out;
    for (auto& [key, traffic] : groups_)
      if (traffic.bytes > 0) out.push_back(traffic);
    return out;
  }

 private:
  Bytes activation() const { return size_of(m_.dtype); }
  Bytes accumulator() const { return size_of(accum_dtype(m_.dtype)); }
  Bytes gradient(const Param& param) const {
    return m_.stage.zero.storage.bf16_gradients && param.products_only ? size_of(DType::bf16) : accumulator();
  }
  std::int64_t micro_batches() const { return m_.schedule.micro_batches; }
  bool frees_weights() const { return m_.stage.zero.stage == 3 && m_.stage.zero.reshard_after_use; }
  std::int64_t forwards() const { return m_.stage.recompute == RecomputePolicy::full ? 2 : 1; }

  OwnStage own_stage(int number) const {
    const auto& layers = m_.pipeline.split[static_cast<std::size_t>(number)];
    OwnStage stage{.number = number, .layers = layers, .embedding = {}, .head = {}, .blocks = {}};
    stage.blocks.resize(static_cast<std::size_t>(layers.blocks()));
    if (layers.embeds) stage.embedding.emplace();
    if (layers.ends) stage.head.emplace();
    const auto tied = tied_ranks(m_.model, m_.pipeline);
    const auto infos = parameter_list(m_.model);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      const auto kind = infos[i].kind;
      const auto block = infos[i].block;
      const auto* param = &params_[i];
      const bool table = kind == ParamKind::embedding, of_embedding = table || kind == ParamKind::position;
      if (block >= layers.first && block < layers.end)
        stage.blocks[static_cast<std::size_t>(block - layers.first)].params.push_back(param);
      if (block < 0 && of_embedding && stage.embedding) stage.embedding->params.push_back(param);
      if (block < 0 && stage.head && (!of_embedding || (table && tied && tied->across())))
        stage.head->params.push_back(param);
    }
    return stage;
  }

  std::vector<Unit*> units() {
    std::vector<Unit*> out;
    for (auto& stage : stages_) {
      if (stage.embedding) out.push_back(&*stage.embedding);
      for (auto& block : stage.blocks) out.push_back(&block);
      if (stage.head) out.push_back(&*stage.head);
    }
    return out;
  }

  void add(std::vector<Axis> axes, const std::string& purpose, Bytes bytes, int parts = 0,
           bool ends = false) {
    int ranks = axes.empty() ? mesh_.shape().world() : mesh_.size(axes);
    if (parts > 0) ranks /= parts;
    auto& entry = groups_[{axes, purpose, parts}];
    entry.group = {.axes = std::move(axes), .purpose = purpose, .parts = parts, .ends = ends};
    entry.ranks = ends ? std::min(ranks, 2) : ranks;
    entry.bytes += bytes;
  }

  // Rows over tp.
  void activations() {
    const std::int64_t others = mesh_.size(Axis::tp) - 1;
    const Bytes move = others * m_.shape.rows / (others + 1) * m_.model.hidden * activation();
    Bytes sent = 0;
    for (const auto& stage : stages_) {
      sent += stage.layers.blocks() * (8 + 4 * forwards()) * move;
      if (stage.embedding) sent += 2 * move;
      if (stage.head) sent += 2 * move + others * m_.shape.rows * 3 * accumulator();
    }
    add({Axis::tp}, "activations", micro_batches() * sent);
  }

  // Keys, values and their gradients over cp.
  void context() {
    const auto& c = m_.model;
    const int tp = mesh_.size(Axis::tp);
    const auto traffic =
        context_traffic(m_.stage.cp_strategy, {.cp = mesh_.size(Axis::cp),
                                               .rows = m_.shape.rows,
                                               .sequence = m_.shape.sequence,
                                               .window = c.window,
                                               .heads = c.heads / tp,
                                               .kv_heads = std::max<std::int64_t>(1, c.kv_heads / tp),
                                               .head_dim = c.head_dim,
                                               .value_dim = c.head_dim,
                                               .dtype = m_.dtype});
    for (const auto& stage : stages_)
      add({Axis::cp}, "activations",
          micro_batches() * stage.layers.blocks() * (forwards() * traffic.forward + traffic.backward));
  }

  void need(Unit& unit) {
    if (!unit.whole) ++unit.gathers;
    unit.whole = true;
  }
  void drop(Unit& unit) const { unit.whole = unit.whole && !frees_weights(); }

  // The embedding's unit on this rank if the head reads its table.
  Unit* tied_table(const OwnStage& head_stage) {
    const auto tied = tied_ranks(m_.model, m_.pipeline);
    return tied && !tied->across() && head_stage.head ? &*stages_.front().embedding : nullptr;
  }

  void use_weights(const Action& action) {
    if (!is_compute(action.act) || action.act == Act::backward_weight) return;
    auto& stage = *std::find_if(stages_.begin(), stages_.end(),
                                [&](const auto& s) { return s.number == action.stage; });
    action.act == Act::forward ? use_forward(stage) : use_backward(stage);
  }
  void use_forward(OwnStage& stage) {
    const auto use = [&](Unit& unit) { need(unit), drop(unit); };
    if (stage.embedding) use(*stage.embedding);
    for (auto& block : stage.blocks) use(block);
    if (!stage.head) return;
    need(*stage.head);  // stays for the backward
    if (auto* table = tied_table(stage)) need(*table);
  }
  void use_backward(OwnStage& stage) {
    if (stage.head) {
      need(*stage.head), drop(*stage.head);
      if (auto* table = tied_table(stage); table && !stage.embedding) drop(*table);
    }
    for (auto& block : stage.blocks) need(block), drop(block);
  }

  bool tied_across(const Param& param) const {
    const auto tied = tied_ranks(m_.model, m_.pipeline);
    return tied && tied->across() && param.name == "embed.weight";
  }

  void weights_and_gradients(const Unit& unit) {
    const bool shared =
        std::any_of(unit.params.begin(), unit.params.end(), [&](auto* p) { return tied_across(*p); });
    const auto reductions = m_.stage.zero.reduce_each_micro_batch && !shared ? micro_batches() : 1;
    for (const auto* param : unit.params) {
      const auto axes = storage_axes(param->view);
      const int storage = mesh_.size(axes);
      const auto shape = param->compute_box.shape();
      const auto padded = ceil_div(shape[0], storage) * shape.row_count();
      const auto sum = gradient(*param);
      add(axes, "weights", (storage - 1) * padded * (unit.gathers * activation() + reductions * sum));
      const auto replicas = replica_axes(*param, mesh_);
      const int ranks = mesh_.size(replicas.axes) / std::max(replicas.parts, 1);
      add(replicas.axes, "weights", reductions * all_reduced(ranks, padded * sum), replicas.parts);
      if (tied_across(*param)) add({Axis::pp}, "tied", all_reduced(2, shape.count() * sum), 0, true);
    }
  }

  // Outputs and gradients of inputs that leave this rank.
  void pipeline() {
    const auto& map = m_.pipeline.map;
    std::int64_t sends = 0;
    for (int s = 0; s + 1 < map.stages(); ++s) {
      const int here = map.rank_of[static_cast<std::size_t>(s)],
                next = map.rank_of[static_cast<std::size_t>(s) + 1];
      if (here != next) sends += (here == pp_rank_) + (next == pp_rank_);
    }
    const auto rows = m_.shape.rows / mesh_.size(Axis::tp);
    add({Axis::pp}, "stages", micro_batches() * sends * rows * m_.model.hidden * activation());
  }

  // Counts of targets, the loss, and the squares of the gradient norm, all in f64.
  void scalars() {
    constexpr Bytes kScalar = 8, kCounts = 2;
    add({Axis::replicate, Axis::shard, Axis::cp}, "loss",
        all_reduced(mesh_.size(std::vector{Axis::replicate, Axis::shard, Axis::cp}), kScalar));
    add({Axis::pp}, "stages", all_reduced(mesh_.size(Axis::pp), kScalar));
    const int world = mesh_.shape().world();
    add({}, "world",
        all_reduced(world, kCounts * kScalar) +
            all_reduced(world, static_cast<Bytes>(params_.size()) * kScalar));
  }

  const TrafficModel& m_;
  const MeshLayout& mesh_;
  int pp_rank_;
  std::deque<Param> params_;
  std::vector<OwnStage> stages_;
  std::map<std::tuple<std::vector<Axis>, std::string, int>, GroupTraffic> groups_;
};

}  // namespace

std::vector<GroupTraffic> step_traffic(const TrafficModel& model, const MeshLayout& mesh, int position) {
  return RankTraffic(model, mesh, position).all();
}

}  // namespace fivefold
