// What follows from a Config, and the rules between its sections. Each rule is one function that throws one
// sentence.
#include "launcher/config.h"

#include <numeric>

#include "core/divisors.h"
#include "core/error.h"
#include "core/nearest.h"
#include "launcher/option_table.h"

namespace fivefold {
namespace {

template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) throw UserError(str(parts...));
}

// tp cuts whole heads: it divides heads, and divides or is a multiple of kv_heads.
bool fits_heads(const ModelConfig& model, std::int64_t tp) {
  return model.heads % tp == 0 && (model.kv_heads % tp == 0 || tp % model.kv_heads == 0);
}

std::int64_t nearest_tp(const ModelConfig& model, std::int64_t wanted) {
  std::int64_t best = 1;
  for (std::int64_t tp = 1; tp <= model.heads; ++tp)
    if (fits_heads(model, tp) && std::abs(tp - wanted) < std::abs(best - wanted)) best = tp;
  return best;
}

void check_tensor_parallel(const Config& c) {
  const auto& m = c.model;
  require(fits_heads(m, c.parallel.tp),
          "parallel.tp must divide model.heads, and divide or be a multiple of model.kv_heads, but tp = ",
          c.parallel.tp, ", heads = ", m.heads, ", kv_heads = ", m.kv_heads, "; the nearest tp is ",
          nearest_tp(m, c.parallel.tp));
  require(m.qk_norm != QkNorm::full || c.parallel.tp == 1,
          "model.qk_norm = full normalises over all heads together and needs parallel.tp = 1, but it is ",
          c.parallel.tp);
}

void check_chunks(const ParallelConfig& p) {
  const bool interleaved = p.schedule == ScheduleKind::interleaved, zb_v = p.schedule == ScheduleKind::zb_v;
  require(!zb_v || p.chunks == 2, "parallel.schedule = zb-v needs parallel.chunks = 2, but it is ", p.chunks);
  require(!interleaved || p.chunks > 1,
          "parallel.schedule = interleaved needs parallel.chunks of at least 2, but it is ", p.chunks);
  require(interleaved || zb_v || p.chunks == 1, "parallel.schedule = ", p.schedule,
          " has parallel.chunks = 1, but it is ", p.chunks,
          "; the schedules with several are interleaved and zb-v");
}

void check_pipeline(const Config& c) {
  const auto& p = c.parallel;
  check_chunks(p);
  const std::int64_t stages = std::int64_t{p.pp} * p.chunks;
  require(stages <= c.model.layers,
          "every virtual stage holds at least one block, but parallel.pp x chunks = ", p.pp, " x ", p.chunks,
          " = ", stages, " and model.layers = ", c.model.layers, "; the most stages is ", c.model.layers);
  const bool zero_bubble = p.schedule == ScheduleKind::zb_h1 || p.schedule == ScheduleKind::zb_v;
  require(!zero_bubble || c.train.recompute != RecomputePolicy::full, "parallel.schedule = ", p.schedule,
          " holds what recompute frees between its two backward halves, so train.recompute = full saves "
          "nothing; use "
          "selective or none, or schedule = 1f1b");
  if (p.stage_layers.empty()) return;
  require(static_cast<std::int64_t>(p.stage_layers.size()) == stages, "parallel.stage_layers has ",
          p.stage_layers.size(), " entries, but there are pp x chunks = ", stages, " virtual stages");
  const auto sum = std::accumulate(p.stage_layers.begin(), p.stage_layers.end(), std::int64_t{0});
  require(sum == c.model.layers, "parallel.stage_layers must sum to model.layers = ", c.model.layers,
          ", but it sums to ", sum);
}

void check_experts(const Config& c, const MeshShape& mesh) {
  const auto& m = c.model;
  if (m.experts == 0) {
    require(mesh.ep == 1, "parallel.ep = ", mesh.ep,
            " needs experts, but model.experts = 0; the nearest ep is 1");
    return;
  }
  require(m.experts % mesh.ep == 0, "parallel.ep must divide model.experts, but ep = ", mesh.ep,
          " and experts = ", m.experts, "; the nearest ep is ", nearest_divisor(m.experts, mesh.ep));
  const auto at_once = c.train.micro_batch * mesh.data_ranks();
  require(m.aux_loss == 0 || m.aux_scope == AuxScope::sequence || c.train.global_batch <= at_once,
          "model.aux_scope = batch balances over one micro-batch a step, but train.global_batch = ",
          c.train.global_batch, " takes more than micro_batch x data ranks = ", c.train.micro_batch, " x ",
          mesh.data_ranks(), "; the nearest micro_batch is ",
          ceil_div(c.train.global_batch, mesh.data_ranks()));
}

void check_context_parallel(const Config& c) {
  const auto& p = c.parallel;
  if (p.cp_strategy != CpStrategy::ulysses) return;
  const auto local = c.model.heads / p.tp;
  require(local % p.cp == 0,
          "parallel.cp_strategy = ulysses needs model.heads / tp to be a multiple of cp, but it is ", local,
          " and cp = ", p.cp, "; the nearest cp is ", nearest_divisor(local, p.cp));
}

void check_sequence(const Config& c) {
  const auto sequence = sequence_length(c);
  require(sequence <= c.model.context, "data.sequence must not exceed model.context, but they are ", sequence,
          " and ", c.model.context, "; the nearest sequence is ", c.model.context);
}

// Which storage a precision leaves room for; its own accumulate dtype always.
void check_storage(const TrainConfig& t) {
  const auto full = accum_dtype(t.precision);
  const bool narrow = t.precision == DType::bf16;
  const auto fits = [&](DType given, bool bf16_works) {
    return given == full || (given == DType::bf16 && bf16_works);
  };
  const auto master = name_of(t.master);
  const bool halves = t.master == MasterStorage::split || t.master == MasterStorage::bf16;
  require(t.master == MasterStorage::automatic || master == name_of(full) || (halves && narrow),
          "train.master = ", master, " does not go with train.precision = ", t.precision,
          "; what does is auto, ", full, narrow ? ", split and bf16" : "");
  const auto check = [&](const char* key, const std::optional<DType>& given, bool bf16_works) {
    require(!given || fits(*given, bf16_works), "train.", key, " = ", given.value_or(full),
            " does not go with train.precision = ", t.precision, "; what does is auto, ", full,
            bf16_works ? " and bf16" : "");
  };
  check("moments", t.moments, t.precision != DType::f64);
  check("gradients", t.gradients, narrow);
}

void check_optimizer(const Config& c) {
  const auto& o = c.optimizer;
  require(o.min_lr <= o.lr, "optimizer.min_lr must not exceed optimizer.lr, but they are ", o.min_lr, " and ",
          o.lr);
  require(o.warmup_steps <= c.run.steps, "optimizer.warmup_steps must not exceed run.steps, but they are ",
          o.warmup_steps, " and ", c.run.steps, "; the nearest warmup_steps is ", c.run.steps);
  require(o.beta1 < 1, "optimizer.beta1 must be below 1, but it is ", o.beta1);
  require(o.beta2 < 1, "optimizer.beta2 must be below 1, but it is ", o.beta2);
  const auto room = c.run.steps - o.warmup_steps;
  require(o.decay != LrDecay::wsd || o.decay_steps <= room,
          "the final fall of decay = wsd must fit between warmup and run.steps, but optimizer.decay_steps = ",
          o.decay_steps, " and run.steps - warmup_steps = ", room, "; the nearest decay_steps is ", room);
}

// What the model asks of a mesh: the rules below, as one question.
MeshRule suits(const Config& c) {
  return [&c](const MeshShape& mesh) {
    const auto& m = c.model;
    const auto stages = std::int64_t{mesh.pp} * c.parallel.chunks,
               given = std::ssize(c.parallel.stage_layers);
    const bool ulysses = c.parallel.cp_strategy == CpStrategy::ulysses;
    return fits_heads(m, mesh.tp) && (m.qk_norm != QkNorm::full || mesh.tp == 1) && stages <= m.layers &&
           (given == 0 || given == stages) && (!ulysses || m.heads / mesh.tp % mesh.cp == 0) &&
           (m.experts == 0 ? mesh.ep == 1 : m.experts % mesh.ep == 0);
  };
}

// The rules of layouts. Those that another layout of as many ranks would keep also name the nearest.
void check_layout(const Config& c, const MeshShape& mesh) {
  try {
    check_tensor_parallel(c);
    check_pipeline(c);
    check_experts(c, mesh);
    check_context_parallel(c);
  } catch (const UserError& error) {
    if (suits(c)(mesh)) throw;
    const auto nearest = nearest_mesh(mesh, mesh.world(), suits(c));
    const auto of_ranks = str(" of ", mesh.world(), mesh.world() == 1 ? " rank" : " ranks");
    throw UserError(str(error.what(),
                        nearest ? str("; the nearest layout", of_ranks, " that fits is ", to_string(*nearest))
                                : str("; no layout", of_ranks, " fits")));
  }
}

}  // namespace

MeshShape mesh_shape(const ParallelConfig& p, int world, const MeshRule& fits) {
  MeshShape shape{.pp = p.pp,
                  .replicate = std::max(p.replicate, 1),
                  .shard = std::max(p.shard, 1),
                  .cp = p.cp,
                  .tp = p.tp,
                  .ep = p.ep};
  const auto given = std::int64_t{shape.pp} * shape.replicate * shape.shard * shape.cp * shape.tp;
  if (world % given == 0) {
    if (p.shard == 0)
      shape.shard = static_cast<int>(world / given);
    else if (p.replicate == 0)
      shape.replicate = static_cast<int>(world / given);
  }
  check_mesh(shape, world, fits);
  return shape;
}

StateStorage state_storage(const TrainConfig& train) {
  const auto form = train.master == MasterStorage::split  ? MasterForm::remainder
                    : train.master == MasterStorage::bf16 ? MasterForm::none
                                                          : MasterForm::whole;
  return {.master = form,
          .bf16_moments = train.moments == DType::bf16,
          .bf16_gradients = train.gradients == DType::bf16};
}

std::int64_t sequence_length(const Config& config) {
  return config.data.sequence > 0 ? config.data.sequence : config.model.context;
}

LrSchedule lr_schedule(const Config& config) {
  const auto& o = config.optimizer;
  const auto room = std::max<std::int64_t>(config.run.steps - o.warmup_steps, 1);
  const auto rest = o.decay == LrDecay::wsd ? std::clamp<std::int64_t>(config.run.steps / 10, 1, room) : room;
  return {.lr = o.lr,
          .min_lr = o.min_lr,
          .warmup_steps = o.warmup_steps,
          .decay = o.decay,
          .decay_steps = o.decay_steps > 0 ? o.decay_steps : rest,
          .total_steps = config.run.steps};
}

void check(const Config& config, int world) {
  check(config.model);
  check_layout(config, mesh_shape(config.parallel, world, suits(config)));
  check_sequence(config);
  check_storage(config.train);
  check_optimizer(config);
}

void check_training(const Config& config) {
  require(!config.data.train.empty(),
          "data.train names no file; make one with 'fivefold data build' and give its path");
  const auto& resume = config.run.resume;
  require(config.run.init.empty() || resume == "auto" || resume == "never",
          "run.init starts at step 0 and run.resume = PATH goes on where a run stopped, but init = ",
          config.run.init, " and resume = ", resume, "; give one of them");
  for (const auto& key : config.run.allow_change)
    require(find_option(key) != nullptr, "run.allow_change = ", key, " names no key; the nearest is ",
            nearest_name(key, option_names()));
}

void check_vocab(const ModelConfig& model, std::int64_t data_vocab, const std::string& path) {
  require(data_vocab <= model.vocab, "the ids of '", path, "' go up to ", data_vocab - 1,
          ", but model.vocab = ", model.vocab, "; the smallest vocab that fits is ", data_vocab);
}

}  // namespace fivefold
