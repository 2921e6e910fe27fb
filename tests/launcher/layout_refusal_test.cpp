// A layout that cannot work is refused by check(), before anything is made: the rule, the values, the nearest
// that works.
#include <gtest/gtest.h>

#include <functional>

#include "launcher/config.h"

namespace fivefold {
namespace {

struct Refused {
  std::string what;
  int world;
  std::function<void(Config&)> change;  // of preset tiny: 2 layers, 4 heads, 2 kv heads
  std::vector<std::string> words;
};

const std::vector<Refused>& of_degrees_and_tp() {
  static const std::vector<Refused> cases{
      {"degrees and world",
       8,
       [](auto& c) { c.parallel.tp = 4, c.parallel.cp = 4; },
       {"the degrees must multiply to the number of ranks", "cp 4 x tp 4 = 16", "8 ranks",
        "nearest mesh that fits is pp 1 x replicate 1 x shard 1 x cp 2 x tp 4"}},
      {"the proposed mesh suits the heads",
       6,
       [](auto& c) { c.parallel.tp = 4; },
       {"= 4", "6 ranks", "nearest mesh that fits is pp 1 x replicate 1 x shard 3 x cp 1 x tp 2"}},
      {"more stages than ranks",
       3,
       [](auto& c) { c.parallel.pp = 2; },
       {"pp 2", "3 ranks", "nearest mesh that fits is pp 1 x replicate 1 x shard 3"}},
      {"absurd degrees",
       4,
       [](auto& c) { c.parallel.tp = 1 << 20, c.parallel.cp = 1 << 20; },
       {"more than 2^31", "4 ranks"}},
      {"tp does not divide the heads",
       3,
       [](auto& c) { c.parallel.tp = 3; },
       {"tp must divide model.heads", "tp = 3, heads = 4, kv_heads = 2", "nearest tp is 2",
        "nearest layout of 3 ranks that fits is pp 1 x replicate 1 x shard 3 x cp 1 x tp 1"}},
      {"tp exceeds the heads",
       8,
       [](auto& c) { c.parallel.tp = 8; },
       {"tp = 8, heads = 4", "nearest tp is 4",
        "nearest layout of 8 ranks that fits is pp 1 x replicate 1 x shard 2 x cp 1 x tp 4"}},
      {"tp and kv heads do not divide each other",
       4,
       [](auto& c) { c.parallel.tp = 4, c.model.heads = 12, c.model.kv_heads = 6; },
       {"tp = 4, heads = 12, kv_heads = 6", "nearest tp is 3",
        "nearest layout of 4 ranks that fits is pp 1 x replicate 1 x shard 2 x cp 1 x tp 2"}},
      {"tp and the norm over all heads",
       2,
       [](auto& c) { c.parallel.tp = 2, c.model.qk_norm = QkNorm::full; },
       {"qk_norm = full", "tp = 1, but it is 2", "shard 2 x cp 1 x tp 1"}},
  };
  return cases;
}

const std::vector<Refused>& of_the_other_axes() {
  static const std::vector<Refused> cases{
      {"more stages than blocks",
       4,
       [](auto& c) { c.parallel.pp = 4; },
       {"at least one block", "4 x 1 = 4", "layers = 2", "most stages is 2",
        "nearest layout of 4 ranks that fits is pp 2 x replicate 1 x shard 2"}},
      {"more chunks than blocks",
       2,
       [](auto& c) {
         c.parallel.pp = 2, c.parallel.chunks = 2, c.parallel.schedule = ScheduleKind::interleaved;
       },
       {"2 x 2 = 4", "layers = 2", "nearest layout of 2 ranks that fits is pp 1 x replicate 1 x shard 2"}},
      {"chunks that no pp can hold",
       2,
       [](auto& c) { c.parallel.chunks = 3, c.parallel.schedule = ScheduleKind::interleaved; },
       {"1 x 3 = 3", "layers = 2", "no layout of 2 ranks fits"}},
      {"stage_layers of another number of stages",
       2,
       [](auto& c) {
         c.parallel.stage_layers = {1, 1};
       },
       {"2 entries", "pp x chunks = 1",
        "nearest layout of 2 ranks that fits is pp 2 x replicate 1 x shard 1"}},
      {"ulysses and the heads of a tp rank",
       8,
       [](auto& c) { c.parallel.cp_strategy = CpStrategy::ulysses, c.parallel.cp = 4, c.parallel.tp = 2; },
       {"model.heads / tp to be a multiple of cp", "it is 2 and cp = 4", "nearest cp is 2",
        "nearest layout of 8 ranks that fits is pp 1 x replicate 1 x shard 2 x cp 2 x tp 2"}},
      {"ep without experts",
       2,
       [](auto& c) { c.parallel.ep = 2; },
       {"ep = 2 needs experts", "nearest ep is 1", "(ep 1)"}},
      {"ep and experts",
       6,
       [](auto& c) { c.model = model_preset("tiny-moe"), c.parallel.ep = 3; },
       {"ep = 3 and experts = 8", "nearest ep is 2",
        "nearest layout of 6 ranks that fits is pp 1 x replicate 1 x shard 6 x cp 1 x tp 1 (ep 1)"}},
      {"ep and the ranks of a stage",
       3,
       [](auto& c) { c.model = model_preset("tiny-moe"), c.parallel.ep = 2; },
       {"ep must divide shard x cp x tp", "ep is 2", "= 3", "nearest ep that fits is 1 or 3"}},
  };
  return cases;
}

void expect_refused(const Refused& refused) {
  Config config;
  config.model = model_preset("tiny");
  refused.change(config);
  std::string message = "accepted";
  try {
    check(config, refused.world);
  } catch (const UserError& error) {
    message = error.what();
  }
  for (const auto& words : refused.words)
    EXPECT_NE(message.find(words), std::string::npos)
        << refused.what << ": '" << words << "' is not in: " << message;
}

TEST(LayoutRefusal, NamesRuleValuesAndTheNearest) {
  for (const auto& refused : of_degrees_and_tp()) expect_refused(refused);
  for (const auto& refused : of_the_other_axes()) expect_refused(refused);
}

// Every proposed mesh is accepted.
TEST(LayoutRefusal, ProposalsAreAccepted) {
  for (const int world : {2, 3, 5, 6, 8, 12, 30})
    for (const int tp : {1, 2, 3, 4, 8})
      for (const int pp : {1, 2, 3})
        for (const int cp : {1, 2, 4}) {
          Config config;
          config.model = model_preset("tiny");
          const MeshShape wanted{.pp = pp, .cp = cp, .tp = tp};
          const auto fits = [&](const MeshShape& m) {
            auto& p = config.parallel;
            p.pp = m.pp, p.replicate = m.replicate, p.shard = m.shard, p.cp = m.cp, p.tp = m.tp;
            try {
              check(config, world);
              return true;
            } catch (const UserError&) {
              return false;
            }
          };
          const auto nearest = nearest_mesh(wanted, world, fits);
          ASSERT_TRUE(nearest.has_value());
          EXPECT_EQ(nearest->world(), world);
          EXPECT_TRUE(fits(*nearest)) << to_string(*nearest);
          if (wanted.world() == world && fits(wanted)) {
            EXPECT_EQ(*nearest, wanted);
          }
        }
}

// A large world is looked through in no time.
TEST(LayoutRefusal, LargeWorldsTakeMilliseconds) {
  Config config;
  config.model = model_preset("tiny");
  config.parallel.tp = 64;
  EXPECT_THROW(check(config, 100'000), UserError);
}

}  // namespace
}  // namespace fivefold
