// Logits of a micro-batch, for comparisons and generation: stage after stage, then to every rank. Small
// values, so what leaves the last stage travels as host messages.
#include <cstring>

#include "core/transfer.h"
#include "launcher/engine.h"

namespace fivefold {

namespace {

std::string_view bytes_of(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

// Columns of the tp ranks side by side.
std::vector<double> joined_columns(const std::vector<std::string>& parts, std::size_t rows,
                                   std::size_t vocab) {
  std::vector<double> out(rows * vocab);
  std::size_t first = 0;
  for (const auto& part : parts) {
    const auto columns = part.size() / sizeof(double) / rows;
    for (std::size_t r = 0; r < rows; ++r)
      std::memcpy(&out[r * vocab + first], part.data() + r * columns * sizeof(double),
                  columns * sizeof(double));
    first += columns;
  }
  FF_CHECK_EQ(first, vocab);
  return out;
}

}  // namespace

// The output of the last stage on the rank that has it, none elsewhere.
Tensor Engine::run_to_logits(const MicroBatch& micro_batch) {
  auto& pp = mesh_->over({Axis::pp}, "stages");
  const auto rows = rows_of(micro_batch);
  const Shape shape{micro_batch.rows() / mesh_->size(Axis::tp), options_.model.hidden};
  Tensor stream, logits;
  auto own = stages_->stages().begin();
  for (int s = 0; s < plan_.map.stages(); ++s) {
    const int holder = plan_.map.rank_of[static_cast<std::size_t>(s)];
    const int before = s > 0 ? plan_.map.rank_of[static_cast<std::size_t>(s - 1)] : holder;
    if (before != holder && pp.rank() == before) pp.send(stream, holder, run_->stream).wait(run_->stream);
    if (pp.rank() != holder) continue;
    if (before != holder) {
      stream = run_->activation(shape);
      pp.recv(stream, before, run_->stream).wait(run_->stream);
    }
    auto& stage = **own++;
    if (stage.plan().ends)
      logits = stage.logits(*run_, rows, stream);
    else
      stream = stage.forward(*run_, 0, rows, stream, {.loss = loss_, .scale = 0, .gradient = false});
  }
  return logits;
}

std::vector<double> Engine::logits(const MicroBatch& micro_batch) {
  const auto mine = run_to_logits(micro_batch);
  const int last = plan_.map.rank_of.back();
  std::vector<double> out;
  if (mine) {
    const auto local = to_host(mine, run_->stream);
    const auto parts = mesh_->over({Axis::tp}, "activations").gather_bytes(bytes_of(local));
    out = joined_columns(parts, static_cast<std::size_t>(micro_batch.rows()),
                         static_cast<std::size_t>(options_.model.vocab));
  }
  const auto everywhere = mesh_->over({Axis::pp}, "stages").broadcast_bytes(bytes_of(out), last);
  out.resize(everywhere.size() / sizeof(double));
  std::memcpy(out.data(), everywhere.data(), everywhere.size());
  return out;
}

}  // namespace fivefold
