// Initial values: a function of seed, name and element, whatever the layout; the spread that each kind of
// parameter gets.
#include "model/init.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/philox.h"
#include "core/transfer.h"
#include "kernels/backend.h"

namespace fivefold {
namespace {

ModelConfig small_model() {
  ModelConfig c;
  c.layers = 3, c.hidden = 20, c.heads = 4, c.kv_heads = 2, c.head_dim = 6, c.ffn = 14, c.vocab = 50,
  c.context = 8;
  c.qkv_bias = c.out_bias = c.mlp_bias = true;
  c.norm = Norm::layer, c.position = Position::learned;
  return complete(c);
}

std::vector<double> values_of(const Param& param, const ModelConfig& config, const InitOptions& options,
                              const Box& box) {
  CpuStream stream;
  const auto x = empty(*make_cpu_memory({.poison = true}), box.shape(), DType::f64, Tag::weights, stream);
  make_cpu_backend()->run(initial_values(param, config, options, box, x), stream);
  return to_host(x, stream);
}

std::vector<double> whole_values(const Param& param, const ModelConfig& config, const InitOptions& options) {
  return values_of(param, config, options, whole(param.global));
}

double spread_of(const std::vector<double>& values) {
  double square = 0;
  for (const double v : values) square += v * v;
  return std::sqrt(square / static_cast<double>(values.size()));
}

const Param& named(const std::deque<Param>& params, const std::string& name) {
  for (const auto& p : params)
    if (p.name == name) return p;
  throw Error("no " + name);
}

// The value that box element (row, column) of `box` must have.
double element(const std::vector<double>& all, const Shape& global, std::int64_t row, std::int64_t column) {
  return all[static_cast<std::size_t>(row * global.row_count() + column)];
}

// B31, B32: every mesh holds the same tensor, cut; no rank draws its own.
TEST(Init, ValuesDoNotDependOnTheLayout) {
  const auto config = small_model();
  const InitOptions options{.seed = 5, .one_dimensional_noise = 0.1};
  const auto one = place_parameters(config, MeshLayout({}), 0);
  for (const MeshShape& shape :
       {MeshShape{.shard = 3}, MeshShape{.tp = 2}, MeshShape{.replicate = 2, .shard = 2, .tp = 2},
        MeshShape{.shard = 8}, MeshShape{.cp = 2, .tp = 4}}) {
    const MeshLayout mesh(shape);
    for (int position = 0; position < shape.world(); ++position)
      for (const auto& p : place_parameters(config, mesh, position)) {
        const auto all = whole_values(one[static_cast<std::size_t>(p.index)], config, options);
        for (const auto& box : {p.storage_box, p.compute_box}) {
          const auto mine = values_of(p, config, options, box);
          std::size_t at = 0;
          for (auto r = box.begin[0]; r < box.end[0]; ++r)
            for (std::int64_t c = 0; c < box.shape().row_count(); ++c, ++at) {
              const auto column = c + (box.begin.rank() > 1 ? box.begin[1] : 0);
              ASSERT_EQ(mine[at], element(all, p.global, r, column))
                  << p.name << ' ' << to_string(shape) << ' ' << box;
            }
        }
      }
  }
}

// B32: same seeds do not make equal layers, nor k equal to v.
TEST(Init, NoTwoParametersAreAlike) {
  const auto config = small_model();
  std::set<double> seen;
  const auto params = place_parameters(config, MeshLayout({}), 0);
  for (const auto& p : params) {
    const auto values = whole_values(p, config, {.seed = 5, .one_dimensional_noise = 0.1});
    EXPECT_TRUE(
        seen.insert(values[0] - (p.global.rank() == 1 && p.name.find("norm") != std::string::npos)).second)
        << p.name;
    EXPECT_NE(values, whole_values(p, config, {.seed = 6, .one_dimensional_noise = 0.1})) << p.name;
  }
}

TEST(Init, Distributions) {
  auto config = small_model();
  config.hidden = 120, config.ffn = 200, config.init_std = 0.02;
  const auto params = place_parameters(config, MeshLayout({}), 0);
  for (const auto& [name, spread] :
       std::vector<std::pair<std::string, double>>{{"embed.weight", 0.02},
                                                   {"head.weight", 0.02},
                                                   {"blocks.1.attn.q.weight", 0.02},
                                                   {"blocks.1.mlp.up.weight", 0.02},
                                                   {"blocks.2.attn.out.weight", 0.02 / std::sqrt(6.0)},
                                                   {"blocks.0.mlp.down.weight", 0.02 / std::sqrt(6.0)}}) {
    const auto values = whole_values(named(params, name), config, {.seed = 1});
    const double error = 4 / std::sqrt(2.0 * static_cast<double>(values.size()));  // four standard errors
    EXPECT_NEAR(spread_of(values), spread, spread * error) << name;
  }
  EXPECT_EQ(whole_values(named(params, "blocks.0.norm1.weight"), config, {.seed = 1}),
            std::vector<double>(120, 1));
  EXPECT_EQ(whole_values(named(params, "blocks.0.norm1.bias"), config, {.seed = 1}),
            std::vector<double>(120, 0));
  EXPECT_EQ(whole_values(named(params, "blocks.0.attn.q.bias"), config, {.seed = 1}),
            std::vector<double>(24, 0));
}

// Old runs must be made again by new programs.
TEST(Init, GoldenValues) {
  const auto config = small_model();
  const auto params = place_parameters(config, MeshLayout({}), 0);
  double sum = 0;
  for (const auto& p : params)
    for (const double v : whole_values(p, config, {.seed = 42, .one_dimensional_noise = 0.1})) sum += v * v;
  const auto q = whole_values(named(params, "blocks.1.attn.q.weight"), config, {.seed = 42});
  EXPECT_NEAR(sum, 146.03029118642544, 1e-9);
  EXPECT_NEAR(q[0], -0.021185621988408513, 1e-14);
  EXPECT_NEAR(q[479], -0.034973307573567564, 1e-14);
}

// B74: elements behind 2^32 have values of their own.
TEST(Init, LongTensors) {
  Param p;
  p.name = "embed.weight";
  p.global = {131072, 50257};
  const Box last{{131071, 50255}, {131072, 50257}};
  const auto values = values_of(p, small_model(), {.seed = 1}, last);
  const std::uint64_t index = std::uint64_t{131072} * 50257 - 1, short_index = index & 0xffffffffu;
  EXPECT_GT(index, std::uint64_t{1} << 32);
  EXPECT_EQ(values[1], 0.02 * philox_normal(1, hash_name("embed.weight"), index));
  EXPECT_NE(values[1], 0.02 * philox_normal(1, hash_name("embed.weight"), short_index));
}

}  // namespace
}  // namespace fivefold
