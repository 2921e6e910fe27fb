// Shards as boxes of global tensors.
#include "launcher/model_state.h"

namespace fivefold {

namespace {

LocalTensor entry(const char* kind, const ShardedParam& p, const Tensor& data) {
  return {.name = str(kind, '/', p.param->name),
          .global = p.param->global,
          .box = p.param->storage_box,
          .data = data,
          .owned = p.owned};
}

bool separate_master(const Engine& engine) { return engine.run().dtype != engine.run().accum(); }

}  // namespace

std::vector<LocalTensor> state_tensors(Engine& engine) {
  std::vector<LocalTensor> out;
  for (const auto* p : engine.params()) {
    out.push_back(entry("model", *p, p->shard));
    if (separate_master(engine)) out.push_back(entry("master", *p, p->master));
    out.push_back(entry("adam_m", *p, p->m));
    out.push_back(entry("adam_v", *p, p->v));
  }
  return out;
}

std::vector<LocalTensor> master_tensors(Engine& engine) {
  std::vector<LocalTensor> out;
  for (const auto* p : engine.params()) out.push_back(entry("model", *p, p->master));
  return out;
}

void masters_changed(Engine& engine) {
  if (separate_master(engine))
    for (const auto* p : engine.params()) engine.run()(Convert{.x = p->master, .y = p->shard});
  engine.shards_changed();
}

}  // namespace fivefold
