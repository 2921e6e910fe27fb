// Shards as boxes of global tensors.
#include "launcher/model_state.h"

#include "core/copy.h"

namespace fivefold {

namespace {

LocalTensor entry(const Engine& engine, const char* kind, const ShardedParam& p, const Tensor& data) {
  return {.name = str(kind, '/', p.param->name),
          .global = p.param->global,
          .box = p.param->storage_box,
          .data = data,
          .owned = p.owned,
          .stream = &engine.run().stream,
          .conversion = {}};
}

LocalTensor converted(const Engine& engine, const char* kind, const ShardedParam& p, Conversion conversion) {
  auto out = entry(engine, kind, p, {});
  out.conversion = std::make_shared<const Conversion>(std::move(conversion));
  return out;
}

bool separate_master(const Engine& engine) { return engine.run().dtype != engine.run().accum(); }

// Files hold masters in the accumulate dtype, however they are stored here.
LocalTensor master(const Engine& engine, const char* kind, const ShardedParam& p) {
  if (p.master) return entry(engine, kind, p, p.master);
  return converted(engine, kind, p,
                   {.dtype = engine.run().accum(),
                    .read = [&](const Tensor& to) { p.read_master(engine.run(), to); },
                    .write = [&](const Tensor& from) { p.write_master(engine.run(), from); }});
}

// Weights that kernels see. A master that is stored whole keeps them in step by itself; in the other forms
// they are part of it, and what a file says of the master is the word.
LocalTensor weight(const Engine& engine, const ShardedParam& p) {
  if (p.master) return entry(engine, "model", p, p.shard);
  const auto& run = engine.run();
  return converted(engine, "model", p,
                   {.dtype = run.dtype,
                    .read =
                        [&](const Tensor& to) {
                          copy_bytes(to, p.shard, run.stream);
                          run.stream.synchronize();
                        },
                    .write = [](const Tensor&) {}});
}

// Likewise in the accumulate dtype.
LocalTensor moment(const Engine& engine, const char* kind, const ShardedParam& p, const Tensor& stored) {
  const auto& run = engine.run();
  if (stored.dtype() == run.accum()) return entry(engine, kind, p, stored);
  return converted(engine, kind, p,
                   {.dtype = run.accum(),
                    .read = [&run, stored](const Tensor& to) { read_as(run, stored, to); },
                    .write = [&run, stored](const Tensor& from) { write_as(run, from, stored); }});
}

}  // namespace

std::vector<LocalTensor> state_tensors(Engine& engine) {
  std::vector<LocalTensor> out;
  for (const auto* p : engine.params()) {
    out.push_back(weight(engine, *p));
    if (separate_master(engine)) out.push_back(master(engine, "master", *p));
    out.push_back(moment(engine, "adam_m", *p, p->m));
    out.push_back(moment(engine, "adam_v", *p, p->v));
  }
  return out;
}

std::vector<LocalTensor> master_tensors(Engine& engine) {
  std::vector<LocalTensor> out;
  for (const auto* p : engine.params()) out.push_back(master(engine, "model", *p));
  return out;
}

void masters_changed(Engine& engine) {
  for (const auto* p : engine.params())
    if (separate_master(engine) && p->master)
      engine.run()(WriteMaster{.value = p->master.view({p->master.count()}), .weight = p->stored()});
  engine.shards_changed();
}

}  // namespace fivefold
