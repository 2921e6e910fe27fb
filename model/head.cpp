// One chunk: logits, statistics per vocabulary part, loss and gradient in place, hidden gradient, weight
// gradient.
#include "model/head.h"

namespace fivefold {

Tensor Head::project(const Run& run, const Tensor& x) const {
  auto logits = run.empty({x.dim(0), weight_->weight.dim(0)}, run.dtype, Tag::workspace);
  run(Gemm{.a = x, .b = weight_->weight, .c = logits, .transpose_b = true});
  return logits;
}

void Head::chunk(const Run& run, const Tensor& x, const Tensor& targets, const LossRequest& request,
                 const Tensor& dx) const {
  const auto logits = project(run, x);
  auto& tp = run.mesh.over({Axis::tp}, "activations");
  const auto first = weight_->compute_box.begin[0], columns = logits.dim(1), rows = x.dim(0);
  auto all = run.empty({tp.size(), rows, 3}, run.accum(), Tag::workspace);
  const auto mine = all.rows(tp.rank(), tp.rank() + 1);
  run(VocabStats{.logits = logits,
                 .target = targets,
                 .stats = mine.view({rows, 3}),
                 .first_column = first,
                 .columns = columns});
  tp.all_gather(all, mine, run.stream).wait(run.stream);
  run(CrossEntropy{.logits = logits,
                   .target = targets,
                   .stats = all,
                   .loss = request.loss,
                   .first_column = first,
                   .columns = columns,
                   .scale = request.scale,
                   .gradient = request.gradient});
  if (!request.gradient) return;
  run(Gemm{.a = logits, .b = weight_->weight, .c = dx});
  const bool tied = static_cast<bool>(weight_->tied_gradient);
  run(Gemm{.a = logits,
           .b = x,
           .c = tied ? weight_->tied_gradient : weight_->gradient,
           .transpose_a = true,
           .beta = !tied && first_sum({&weight_, 1}) ? 0.0 : 1.0});
}

void Head::forward(const Run& run, Residual in, const TokenRows& rows, const LossRequest& request,
                   Saved& saved) const {
  const auto x = gather_rows(run, norm_.forward(run, in, saved.norm));
  const auto dx = request.gradient ? run.activation(x.shape()) : Tensor{};
  for (std::int64_t begin = 0; begin < x.dim(0); begin += chunk_rows_) {
    const auto end = std::min(begin + chunk_rows_, x.dim(0));
    chunk(run, x.rows(begin, end), rows.targets.rows(begin, end), request,
          request.gradient ? dx.rows(begin, end) : Tensor{});
  }
  if (request.gradient) saved.d_normed = reduce_scatter_rows(run, dx);
}

Tensor Head::backward_input(const Run& run, Saved& saved) const {
  const auto dy = std::exchange(saved.d_normed, {});
  return norm_.backward(run, dy, {}, saved.norm);
}

Tensor Head::logits(const Run& run, Residual in) const {
  NormLayer::Saved unused;
  return project(run, gather_rows(run, norm_.forward(run, in, unused)));
}

}  // namespace fivefold
