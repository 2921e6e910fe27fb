// Batches, runs and measures of trajectories.
#include "tests/support/trajectory.h"

#include <cmath>
#include <cstring>

#include "core/philox.h"
#include "core/transfer.h"
#include "parallel/comm/thread_world.h"

namespace fivefold::test {

namespace {

ModelConfig small(std::int64_t kv_heads) {
  ModelConfig c;
  c.layers = 2, c.hidden = 20, c.heads = 4, c.kv_heads = kv_heads, c.head_dim = 6, c.ffn = 28, c.vocab = 250,
  c.context = 16;
  c.init_std = 0.3;  // gradients of some size everywhere
  return c;
}

double uniform(std::int64_t sample, std::int64_t position, std::uint64_t what) {
  return philox_uniform(what, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(position));
}

std::int32_t token(const Problem& p, std::int64_t sample, std::int64_t position) {
  return static_cast<std::int32_t>(uniform(sample, position, 1) * static_cast<double>(p.model.vocab));
}

bool starts_document(const Problem& p, std::int64_t sample, std::int64_t position) {
  return position == 0 || (p.documents && uniform(sample, position, 2) < 0.25);
}

void append_row(MicroBatch& b, const Problem& p, std::int64_t sample, std::int64_t j, std::int64_t document) {
  const auto row = static_cast<std::int32_t>(b.rows());
  const bool last = j + 1 == p.sequence || starts_document(p, sample, j + 1);
  const bool target = !last && (!p.trained || p.trained(sample, j));
  b.tokens.push_back(token(p, sample, j));
  b.targets.push_back(target ? token(p, sample, j + 1) : -1);
  b.valid_targets += target;
  b.position.push_back(static_cast<std::int32_t>(j - document));
  b.q_index.push_back(row);
  b.first_visible.push_back(static_cast<std::int32_t>(row - j + document));
  b.k_index.push_back(row);
}

void append_bytes(std::string& out, const void* data, std::size_t size) {
  out.append(static_cast<const char*>(data), size);
}

// Per parameter: its index, rows and columns of the box, the elements.
std::string encode(Engine& engine, Tensor ShardedParam::*member) {
  std::string out;
  for (const auto* p : engine.params()) {
    const auto& box = p->param->storage_box;
    const bool matrix = box.begin.rank() > 1;
    const std::array<std::int64_t, 5> head{p->param->index, box.begin[0], box.end[0],
                                           matrix ? box.begin[1] : 0, matrix ? box.end[1] : 1};
    const auto values = to_host(p->in_full(engine.run(), member), engine.run().stream);
    append_bytes(out, head.data(), sizeof head);
    append_bytes(out, values.data(), values.size() * sizeof(double));
  }
  return out;
}

// Puts one rank's boxes into the whole tensors.
void decode(const std::string& bytes, const ParamTable& table, Tensors& whole,
            std::map<std::string, std::vector<bool>>& seen) {
  for (std::size_t at = 0; at < bytes.size();) {
    std::array<std::int64_t, 5> head;
    std::memcpy(head.data(), &bytes[at], sizeof head);
    at += sizeof head;
    const auto& param = table.params[static_cast<std::size_t>(head[0])];
    auto& values = whole[param.name];
    for (auto r = head[1]; r < head[2]; ++r)
      for (auto c = head[3]; c < head[4]; ++c, at += sizeof(double)) {
        const auto i = static_cast<std::size_t>(r * param.global.row_count() + c);
        double value;
        std::memcpy(&value, &bytes[at], sizeof value);
        FF_CHECK(!seen[param.name][i] || std::memcmp(&values[i], &value, sizeof value) == 0, param.name,
                 " element ", i, ": ranks hold ", values[i], " and ", value);
        values[i] = value;
        seen[param.name][i] = true;
      }
  }
}

// NaN counts as infinitely far.
double apart(double a, double b) {
  const double d = std::abs(a - b);
  return std::isnan(d) ? INFINITY : d;
}

double tensor_difference(const std::vector<double>& a, const std::vector<double>& b, double floor) {
  FF_CHECK_EQ(a.size(), b.size());
  double scale = floor, error = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    scale = std::max(scale, std::abs(b[i]));
    error = std::max(error, apart(a[i], b[i]));
  }
  return error == 0 ? 0 : error / scale;
}

// The largest over all tensors, and where.
std::pair<double, std::string> largest_difference(const Tensors& a, const Tensors& b, double floor) {
  FF_CHECK_EQ(a.size(), b.size(), "tensors");
  std::pair<double, std::string> worst;
  for (const auto& [name, values] : a) {
    const double d = tensor_difference(values, b.at(name), floor);
    if (d >= worst.first) worst = {d, name};
  }
  return worst;
}

}  // namespace

ModelConfig small_llama() { return complete(small(2)); }

ModelConfig small_gpt2() {
  auto c = small(4);
  c.norm = Norm::layer, c.activation = Activation::gelu, c.position = Position::learned;
  c.qkv_bias = c.out_bias = c.mlp_bias = c.tie_embeddings = true;
  return complete(c);
}

ModelConfig small_qwen3() {
  auto c = small(1);
  c.qk_norm = QkNorm::head, c.tie_embeddings = true, c.window = 5;
  return complete(c);
}

std::string to_string(const Layout& l) {
  return str(fivefold::to_string(l.mesh), ", micro-batch ", l.micro_batch, ", recompute ",
             static_cast<int>(l.stage.recompute), ", zero ", l.stage.zero.stage,
             l.stage.zero.reduce_each_micro_batch ? ", reduced each micro-batch" : "",
             l.stage.zero.reshard_after_use ? "" : ", whole all step", ", ", l.strategy, ", ",
             l.pipeline.schedule, ", chunks ", l.pipeline.chunks);
}

MicroBatch sample_batch(const Problem& p, std::int64_t first, std::int64_t count, std::int64_t sequences) {
  MicroBatch b;
  b.sequences = sequences, b.sequence = p.sequence, b.index_end = sequences * p.sequence;
  for (auto sample = first; sample < first + count; ++sample) {
    std::int64_t document = 0;
    for (std::int64_t j = 0; j < p.sequence; ++j) {
      if (starts_document(p, sample, j)) document = j;
      append_row(b, p, sample, j, document);
    }
  }
  while (b.rows() < b.index_end) append_padding_row(b, static_cast<std::int32_t>(b.rows()));
  return b;
}

std::vector<MicroBatch> problem_batches(const Problem& p, const BatchPlan& plan, std::int64_t step) {
  std::vector<MicroBatch> out;
  const auto count = micro_batches_per_step(plan.global_batch, plan.data_ranks, plan.micro_batch);
  for (std::int64_t m = 0; m < count; ++m) {
    const auto s = samples_of(step * plan.global_batch, plan.global_batch, plan.data_rank, plan.data_ranks,
                              plan.micro_batch, m);
    out.push_back(fitted(sample_batch(p, s.first, s.count, plan.micro_batch), plan));
  }
  return out;
}

Tensors gather(Engine& engine, Tensor ShardedParam::*member) {
  Tensors whole;
  std::map<std::string, std::vector<bool>> seen;
  for (const auto& p : engine.table().params) {
    whole[p.name].resize(static_cast<std::size_t>(p.global.count()));
    seen[p.name].resize(static_cast<std::size_t>(p.global.count()));
  }
  for (const auto& bytes : engine.mesh().world().gather_bytes(encode(engine, member)))
    decode(bytes, engine.table(), whole, seen);
  for (const auto& [name, elements] : seen)
    FF_CHECK(std::find(elements.begin(), elements.end(), false) == elements.end(), name,
             " has elements that no rank holds");
  return whole;
}

State state_of(Engine& engine) {
  return {gather(engine, &ShardedParam::shard), gather(engine, &ShardedParam::master),
          gather(engine, &ShardedParam::m), gather(engine, &ShardedParam::v)};
}

namespace {

EngineOptions options_of(const Problem& p, const Layout& layout) {
  auto stage = layout.stage;
  stage.cp_strategy = layout.strategy;
  return {.model = p.model,
          .mesh = layout.mesh,
          .dtype = p.dtype,
          .device = p.device,
          .stage = stage,
          .pipeline = layout.pipeline,
          .optimizer = p.optimizer,
          .memory = {.poison = true}};
}

BatchPlan plan_of(const Engine& engine, const Problem& p, const Layout& layout) {
  return plan_batches(engine.mesh(), p.global_batch, layout.micro_batch, p.model.window, layout.strategy);
}

std::vector<HostSlot> one_host(int ranks) {
  std::vector<HostSlot> slots;
  for (int r = 0; r < ranks; ++r) slots.push_back({"host", r});
  return slots;
}

}  // namespace

void on_engines(const Problem& p, const Layout& layout,
                const std::function<void(Engine&, const BatchPlan&)>& body) {
  const auto slots = one_host(layout.mesh.world());
  run_ranks(layout.mesh.world(), [&](Transport& transport) {
    Engine engine(options_of(p, layout), transport, slots);
    engine.initialize(p.init);
    body(engine, plan_of(engine, p, layout));
  });
}

Trajectory train(Transport& transport, const std::vector<HostSlot>& slots, const Problem& p,
                 const Layout& layout) {
  Engine engine(options_of(p, layout), transport, slots);
  engine.initialize(p.init);
  const auto plan = plan_of(engine, p, layout);
  Trajectory t;
  for (std::int64_t step = 0; step < p.steps; ++step) {
    const auto batches = problem_batches(p, plan, step);
    const auto loss = engine.accumulate(batches, engine.agree(valid_targets(batches), false).sum);
    t.gradients.push_back(gather(engine, &ShardedParam::gradient));
    t.reports.push_back(engine.update(loss, p.lr));
    t.loss.push_back(loss.mean());
    t.valid_tokens.push_back(loss.valid_tokens);
    t.grad_norm.push_back(t.reports.back().grad_norm);
  }
  t.weights = gather(engine, &ShardedParam::master);
  t.m = gather(engine, &ShardedParam::m);
  t.v = gather(engine, &ShardedParam::v);
  return t;
}

Trajectory train(const Problem& problem, const Layout& layout,
                 std::vector<std::vector<LedgerRecord>>* ledgers) {
  Trajectory result;
  const auto slots = one_host(layout.mesh.world());
  const auto made = run_ranks(layout.mesh.world(),
                              [&](Transport& transport) {
                                auto mine = train(transport, slots, problem, layout);
                                if (transport.world().rank() == 0) result = std::move(mine);
                              },
                              {.keep_all = ledgers != nullptr});
  for (const auto& ledger : made)
    if (ledgers) ledgers->push_back(ledger->records());
  return result;
}

double Distance::largest() const { return std::max({loss, grad_norm, gradients, weights, moments}); }

Distance distance(const Trajectory& a, const Trajectory& b, const Problem& p) {
  FF_CHECK_EQ(a.loss.size(), b.loss.size(), "steps");
  Distance d;
  const double floor = p.dtype == DType::f64 ? 1e-6 : 1e-4;
  double norm = 0;
  for (std::size_t s = 0; s < a.loss.size(); ++s) {
    FF_CHECK_EQ(a.valid_tokens[s], b.valid_tokens[s], "targets of step ", s);
    norm = std::max(norm, b.grad_norm[s]);
    d.loss = std::max(d.loss, apart(a.loss[s], b.loss[s]));
    d.grad_norm = std::max(d.grad_norm, tensor_difference({a.grad_norm[s]}, {b.grad_norm[s]}, 0));
    const auto [error, name] = largest_difference(a.gradients[s], b.gradients[s], floor * b.grad_norm[s]);
    if (error >= d.gradients) d.gradients = error, d.worst = str(name, " in step ", s);
  }
  const double rates = p.lr * static_cast<double>(a.loss.size());
  d.weights = largest_difference(a.weights, b.weights, rates).first;
  d.moments = std::max(largest_difference(a.m, b.m, floor * norm).first,
                       largest_difference(a.v, b.v, 1e-6 * norm * norm).first);
  return d;
}

std::string to_string(const Distance& d) {
  return str("loss ", d.loss, ", norm ", d.grad_norm, ", gradients ", d.gradients, " (", d.worst,
             "), weights ", d.weights, ", moments ", d.moments);
}

std::uint64_t hash_of(const Trajectory& t) {
  std::string bytes;
  const auto add = [&](const std::vector<double>& v) {
    append_bytes(bytes, v.data(), v.size() * sizeof(double));
  };
  add(t.loss), add(t.grad_norm);
  for (const auto& step : t.gradients)
    for (const auto& [name, values] : step) add(values);
  for (const auto* tensors : {&t.weights, &t.m, &t.v})
    for (const auto& [name, values] : *tensors) add(values);
  return hash_name(bytes);
}

}  // namespace fivefold::test
