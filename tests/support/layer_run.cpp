// Rows, parameters and differences for tests of layers.
#include "tests/support/layer_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/philox.h"
#include "core/transfer.h"
#include "parallel/comm/thread_world.h"
#include "parallel/mesh/groups.h"

namespace fivefold::test {

namespace {

constexpr double kStep =
    1e-5;  // of the central differences: rounding 1e-11, the third derivative's part 1e-10
constexpr double kTolerance = 1e-6;
constexpr double kNoise =
    1e-4;  // x kTolerance x the objective: five times what rounding makes of a gradient of zero
constexpr std::int64_t kMostElements = 60;

struct Rows {
  std::vector<std::int32_t> tokens, targets, position, q_index, first_visible, k_index;
  double visible_pairs = 0;
  std::int32_t count() const { return static_cast<std::int32_t>(tokens.size()); }
};

void append_document(Rows& rows, std::int64_t length, const RowSpec& spec) {
  const auto begin = rows.count();
  const auto id = [&](std::int64_t row) {
    const double u = philox_uniform(spec.seed, 17, static_cast<std::uint64_t>(row));
    return static_cast<std::int32_t>(u * static_cast<double>(spec.vocab));
  };
  for (std::int64_t j = 0; j < length; ++j) {
    const auto row = static_cast<std::int32_t>(begin + j);
    rows.tokens.push_back(id(row));
    rows.targets.push_back(j + 1 == length ? -1 : id(row + 1));
    rows.position.push_back(static_cast<std::int32_t>(j));
    const auto seen = spec.window > 0 ? std::min(j + 1, spec.window) : j + 1;
    rows.first_visible.push_back(static_cast<std::int32_t>(row - seen + 1));
    rows.q_index.push_back(row);
    rows.k_index.push_back(row);
    rows.visible_pairs += static_cast<double>(seen);
  }
}

void append_padding(Rows& rows) {
  const auto row = rows.count();
  rows.tokens.push_back(0);
  rows.targets.push_back(-1);
  rows.position.push_back(0);
  rows.q_index.push_back(row);
  rows.first_visible.push_back(row + 1);
  rows.k_index.push_back(row);
}

double& element(const Tensor& t, std::int64_t i) { return t.data<double>()[i]; }

}  // namespace

void on_ranks(const MeshShape& mesh, DType dtype, const std::function<void(const Run&)>& body) {
  run_ranks(mesh.world(), [&](Transport& transport) {
    std::vector<HostSlot> slots;
    for (int r = 0; r < mesh.world(); ++r) slots.push_back({"host", r});
    const DeviceMesh device_mesh(mesh, transport, slots, training_groups(0));
    const auto memory = make_cpu_memory({.poison = true});
    const auto backend = make_cpu_backend({.threads = 1});
    CpuStream stream;
    body(Run{*backend, stream, *memory, device_mesh, dtype});
  });
}

void on_one_rank(const std::function<void(const Run&)>& body) { on_ranks({}, DType::f64, body); }

Tensor normal(const Run& run, Shape shape, std::uint64_t stream, double size) {
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = size * philox_normal(7, stream, i);
  return upload(run.memory, values, shape, run.dtype, Tag::activations, run.stream);
}

std::vector<double> numbers(const Tensor& t, const Run& run) { return to_host(t, run.stream); }

double dot(const Tensor& x, const Tensor& y, const Run& run) {
  const auto a = numbers(x, run), b = numbers(y, run);
  FF_CHECK_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

bool same_bits(const Tensor& x, const Tensor& y) {
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         std::memcmp(x.raw(), y.raw(), static_cast<std::size_t>(x.bytes())) == 0;
}

TokenRows token_rows(const Run& run, const RowSpec& spec) {
  Rows rows;
  for (const auto& sequence : spec.sequences)
    for (const auto length : sequence) append_document(rows, length, spec);
  for (std::int64_t i = 0; i < spec.padding; ++i) append_padding(rows);
  const auto put = [&](const std::vector<std::int32_t>& values) {
    return upload(run.memory, values, {rows.count()}, Tag::data, run.stream);
  };
  return {.tokens = put(rows.tokens),
          .targets = put(rows.targets),
          .position = put(rows.position),
          .q_index = put(rows.q_index),
          .first_visible = put(rows.first_visible),
          .k_index = put(rows.k_index),
          .visible_pairs = rows.visible_pairs};
}

std::vector<Param*> TestParams::add(const std::vector<Named>& group) {
  std::vector<Param*> added;
  for (const auto& named : group) {
    Param& p = params_.emplace_back();
    p.name = named.name;
    p.global = named.shape;
    p.index = static_cast<int>(params_.size()) - 1;
    p.decay = named.shape.rank() >= 2;
    p.compute = named.compute;
    place(p, run_.mesh.layout(), run_.mesh.position());
    added.push_back(&p);
  }
  auto& unit = units_.emplace_back(run_, group.front().name, FsdpUnit::Groups{added}, ZeroPolicy{});
  for (auto& sharded : unit.params())
    write_values(sharded, group[static_cast<std::size_t>(sharded.param->index - added.front()->index)]);
  unit.shards_changed();
  unit.unshard(run_);
  unit.ready(run_);
  fill_gradients(0);
  return added;
}

// Element i of a parameter has the same value on every mesh.
void TestParams::write_values(ShardedParam& sharded, const Named& named) {
  const auto& box = sharded.param->storage_box;
  FF_CHECK_EQ(box.shape().row_count(), named.shape.row_count(), "parameters of a test are cut by rows only");
  const auto first = static_cast<std::size_t>(box.begin[0] * named.shape.row_count());
  std::vector<double> values(static_cast<std::size_t>(box.count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = named.mean + named.spread * philox_normal(3, hash_name(named.name), first + i);
  write(sharded.master, values, run_.stream);
  write(sharded.shard, values, run_.stream);
  for (const auto& moment : {sharded.m, sharded.v}) run_(Fill{.x = moment, .value = 0});
}

void TestParams::reduce_gradients() {
  for (auto& unit : units_) unit.reduce_grads(run_);
  for (auto& unit : units_) unit.finish_grads(run_);
}

std::vector<ShardedParam*> TestParams::sharded() {
  std::vector<ShardedParam*> out;
  for (auto& unit : units_)
    for (auto& p : unit.params()) out.push_back(&p);
  return out;
}

Param* TestParams::add(const std::string& name, Shape shape, double mean, double spread) {
  return add({{.name = name, .shape = shape, .mean = mean, .spread = spread}}).front();
}

void TestParams::fill_gradients(double value) {
  for (auto& p : params_) {
    run_(Fill{.x = p.gradient, .value = value});
    if (p.tied_gradient) run_(Fill{.x = p.tied_gradient, .value = value});
  }
}

void expect_gradient(const std::string& what, const Tensor& value, const Tensor& gradient,
                     const std::function<double()>& objective, const Run& run) {
  const auto analytic = numbers(gradient, run);
  ASSERT_EQ(analytic.size(), static_cast<std::size_t>(value.count())) << what;
  double largest = std::max(1e-3, kNoise * std::abs(objective()));
  for (const double g : analytic) largest = std::max(largest, std::abs(g));
  const auto stride = ceil_div(value.count(), kMostElements);
  for (std::int64_t i = 0; i < value.count(); i += stride) {
    const double before = element(value, i);
    element(value, i) = before + kStep;
    const double above = objective();
    element(value, i) = before - kStep;
    const double below = objective();
    element(value, i) = before;
    const double found = (above - below) / (2 * kStep);
    ASSERT_NEAR(analytic[static_cast<std::size_t>(i)], found, kTolerance * largest)
        << what << " element " << i;
  }
}

void check_row_layer(const Run& run, const Tensor& x, TestParams& params, const RowLayer& layer) {
  constexpr double kThere = 2;  // in the gradients already
  const auto dy = normal(run, layer.forward(x).shape(), 99);
  const auto objective = [&] { return dot(layer.forward(x), dy, run); };
  params.fill_gradients(kThere);
  const auto dx = layer.gradient(x, dy);
  expect_gradient("x", x, dx, objective, run);
  for (auto& p : params.all()) {
    auto values = numbers(p.gradient, run);
    for (auto& v : values) v -= kThere;
    const auto added = upload(run.memory, values, p.gradient.shape(), DType::f64, Tag::workspace, run.stream);
    expect_gradient(p.name, p.weight, added, objective, run);
  }
}

}  // namespace fivefold::test
