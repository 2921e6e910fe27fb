// Cases of kernels/ops/tokens.h.
#include <cmath>
#include <limits>

#include "kernels/cases/place.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {
namespace {

// A vocabulary part: rows [first, first + rows) of `vocab`.
struct Part {
  std::int64_t tokens, width, vocab, first, rows;
  std::string name() const {
    return str("T=", tokens, ",D=", width, ",vocab=", vocab, ",first=", first, ",rows=", rows);
  }
  // f(token, local row) for the tokens whose row is here.
  template <class V, class F>
  void for_each(const V& v, F f) const {
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
      const auto row = static_cast<std::int64_t>(v["ids"][t]) - first;
      if (row >= 0 && row < rows) f(t, static_cast<std::size_t>(row));
    }
  }
};

std::vector<Part> parts(Scale scale) {
  if (scale == Scale::large) return {{16384, 2048, 128256, 0, 128256}, {16384, 4096, 128256, 0, 128256}};
  if (scale == Scale::bench) return {{2048, 256, 4096, 0, 4096}, {2048, 1024, 32000, 0, 32000}};
  // Rows with more tokens than are added at once, a long list to sort.
  if (scale == Scale::edges) return {{300, 1032, 7, 0, 7}, {3000, 16, 40000, 300, 39000}};
  // Repeated tokens, a part in the middle, a part without rows, no tokens, enough tokens for several threads.
  return {{9, 33, 5, 0, 5}, {12, 8, 20, 7, 6},    {4, 3, 10, 10, 0},
          {0, 8, 4, 0, 4},  {83, 70, 30, 10, 20}, {1, 1, 1, 0, 1}};
}

Case<EmbeddingForward> embedding_forward(const Part& p, bool accumulate, DType dtype) {
  using Op = EmbeddingForward;
  Case<Op> c(str(p.name(), ",accumulate=", accumulate), dtype);
  c.op.first_row = p.first;
  c.op.accumulate = accumulate;
  c.input("ids", &Op::ids, {p.tokens}, DType::i32, integers(0, p.vocab));
  c.input("table", &Op::table, {p.rows, p.width}, dtype).free_rows = true;
  if (accumulate)
    c.inout("y", &Op::y, {p.tokens, p.width}, dtype);
  else
    c.output("y", &Op::y, {p.tokens, p.width}, dtype);
  c.formula([=](const Op& op, auto& v) {
    const auto width = static_cast<std::size_t>(p.width);
    if (!op.accumulate) std::fill(v["y"].begin(), v["y"].end(), 0);
    p.for_each(v, [&](std::size_t t, std::size_t row) {
      for (std::size_t d = 0; d < width; ++d) v["y"][t * width + d] += v["table"][row * width + d];
    });
  });
  return c;
}

Case<EmbeddingBackward> embedding_backward(const Part& p, DType dtype) {
  using Op = EmbeddingBackward;
  Case<Op> c(p.name(), dtype);
  c.op.first_row = p.first;
  c.input("ids", &Op::ids, {p.tokens}, DType::i32, integers(0, p.vocab));
  c.input("dy", &Op::dy, {p.tokens, p.width}, dtype);
  c.inout("d_table", &Op::d_table, {p.rows, p.width}, accum_dtype(dtype)).free_rows = true;
  c.formula([=](const Op&, auto& v) {
    const auto width = static_cast<std::size_t>(p.width);
    p.for_each(v, [&](std::size_t t, std::size_t row) {
      for (std::size_t d = 0; d < width; ++d) v["d_table"][row * width + d] += v["dy"][t * width + d];
    });
  });
  c.objective = [=](const Machine& machine, const Values<double>& v) {
    auto forward = embedding_forward(p, false, dtype);
    for (const auto* name : {"ids", "table"}) forward.set(name, v[name]);
    return dot(evaluate(machine, forward)["y"], v["dy"]);
  };
  c.gradients = {{"table", "d_table"}};
  return c;
}

// Rows of logits over `columns` real columns of `width`, the first of which is token `first` of `vocab`.
struct Logits {
  std::int64_t rows, width, columns, first, vocab, parts;
  std::string name() const {
    return str("R=", rows, ",V=", width, ",columns=", columns, ",first=", first, ",vocab=", vocab,
               ",P=", parts);
  }
  std::int64_t column_of(double target) const {
    const auto column = static_cast<std::int64_t>(target) - first;
    return target == kNoTarget || column < 0 || column >= columns ? -1 : column;
  }
};

std::vector<Logits> logits(Scale scale) {
  if (scale == Scale::large)
    return {{1024, 128256, 128256, 0, 128256, 1}, {4096, 128256, 128256, 0, 128256, 1}};
  if (scale == Scale::bench) return {{2048, 4096, 4096, 0, 4096, 1}, {512, 32000, 32000, 0, 32000, 1}};
  // Rows of several batches of packs of every thread.
  if (scale == Scale::edges) return {{3, 20008, 19999, 0, 19999, 1}, {2, 33001, 33001, 50, 33100, 2}};
  return {{7, 33, 33, 0, 33, 1}, {5, 40, 29, 10, 60, 3},  {3, 8, 0, 8, 8, 2},
          {0, 8, 8, 0, 8, 1},    {41, 19, 19, 19, 38, 2}, {2, 2100, 2077, 0, 2077, 1}};
}

// Targets over the whole vocabulary, every fourth row without one.
Generator targets(std::int64_t vocab) {
  return [token = integers(0, vocab)](std::int64_t i) {
    return i % 4 == 3 ? static_cast<double>(kNoTarget) : token(i);
  };
}

template <class Op>
void add_logits(Case<Op>& c, const Logits& l, Role role) {
  c.op.first_column = l.first;
  c.op.columns = l.columns;
  if (role == Role::input)
    c.input("logits", &Op::logits, {l.rows, l.width}, c.dtype, uniform(-8, 8));
  else
    c.inout("logits", &Op::logits, {l.rows, l.width}, c.dtype, uniform(-8, 8));
  c.input("target", &Op::target, {l.rows}, DType::i32, targets(l.vocab));
}

// {maximum, sum of exp(l - maximum)} of the real columns of a row.
template <class R>
std::pair<R, R> max_and_sum(const std::vector<R>& numbers, std::size_t begin, std::int64_t columns) {
  R top = -std::numeric_limits<R>::infinity(), sum = 0;
  const auto end = begin + static_cast<std::size_t>(columns);
  for (auto i = begin; i < end; ++i) top = std::max(top, numbers[i]);
  for (auto i = begin; i < end; ++i) sum += std::exp(numbers[i] - top);
  return {top, sum};
}

Case<VocabStats> vocab_stats(const Logits& l, DType dtype) {
  using Op = VocabStats;
  Case<Op> c(l.name(), dtype);
  add_logits(c, l, Role::input);
  c.output("stats", &Op::stats, {l.rows, 3}, accum_dtype(dtype));
  c.formula([=](const Op&, auto& v) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(l.rows); ++r) {
      const auto begin = r * static_cast<std::size_t>(l.width);
      const auto column = l.column_of(v["target"][r]);
      std::tie(v["stats"][3 * r], v["stats"][3 * r + 1]) = max_and_sum(v["logits"], begin, l.columns);
      v["stats"][3 * r + 2] = column < 0 ? 0 : v["logits"][begin + static_cast<std::size_t>(column)];
    }
  });
  return c;
}

// Statistics of the parts before the last as they would come from other ranks; the last part is the logits'
// own.
void fill_stats(const Logits& l, Values<double>& v) {
  const auto rows = static_cast<std::size_t>(l.rows), parts_ = static_cast<std::size_t>(l.parts);
  for (std::size_t r = 0; r < rows; ++r) {
    const auto column = l.column_of(v["target"][r]);
    const auto begin = r * static_cast<std::size_t>(l.width);
    auto* own = &v["stats"][((parts_ - 1) * rows + r) * 3];
    std::tie(own[0], own[1]) = max_and_sum(v["logits"], begin, l.columns);
    own[2] = column < 0 ? 0 : v["logits"][begin + static_cast<std::size_t>(column)];
    for (std::size_t p = 0; p + 1 < parts_; ++p) {
      auto* other = &v["stats"][(p * rows + r) * 3];
      const bool has_target = p == 0 && column < 0 && v["target"][r] != kNoTarget;
      other[0] *= 10;
      other[1] = 2 + std::abs(other[1]);
      other[2] = has_target ? other[0] - 1 : 0;
    }
  }
}

template <class V>
void cross_entropy_formula(const Logits& l, const CrossEntropy& op, V& v) {
  using R = typename V::Number;
  const auto rows = static_cast<std::size_t>(l.rows), width = static_cast<std::size_t>(l.width);
  double total = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const bool has_target = v["target"][r] != kNoTarget;
    R top = -std::numeric_limits<R>::infinity(), sum = 0, target = 0;
    const auto stat = [&](std::size_t p, std::size_t i) { return v["stats"][(p * rows + r) * 3 + i]; };
    for (std::size_t p = 0; p < static_cast<std::size_t>(l.parts); ++p) {
      const R higher = std::max(top, stat(p, 0));
      if (std::isinf(higher)) continue;
      sum = sum * std::exp(top - higher) + stat(p, 1) * std::exp(stat(p, 0) - higher);
      target += stat(p, 2);
      top = higher;
    }
    const R loss = has_target ? std::log(sum) + (top - target) : R(0);
    if (v.has("row_loss")) v["row_loss"][r] = loss;
    total += static_cast<double>(loss);
    const auto column = l.column_of(v["target"][r]);
    for (std::size_t i = 0; op.gradient && i < width; ++i) {
      auto& x = v["logits"][r * width + i];
      const bool counts = has_target && static_cast<std::int64_t>(i) < l.columns;
      const R one = static_cast<std::int64_t>(i) == column ? R(1) : R(0);
      x = counts ? static_cast<R>(op.scale) * (std::exp(x - top) / sum - one) : R(0);
    }
  }
  v["loss"][0] += static_cast<R>(total);
}

Case<CrossEntropy> cross_entropy(const Logits& l, bool gradient, bool row_loss, DType dtype) {
  using Op = CrossEntropy;
  Case<Op> c(str(l.name(), ",gradient=", gradient, ",row_loss=", row_loss), dtype);
  add_logits(c, l, gradient ? Role::inout : Role::input);
  c.op.scale = 0.375;
  c.op.gradient = gradient;
  c.input("stats", &Op::stats, {l.parts, l.rows, 3}, accum_dtype(dtype)).free_rows = true;
  c.inout("loss", &Op::loss, {1}, DType::f64);
  if (row_loss) c.output("row_loss", &Op::row_loss, {l.rows}, accum_dtype(dtype)).optional = true;
  c.prepare = [=](const Op&, Values<double>& v) { fill_stats(l, v); };
  c.formula([=](const Op& op, auto& v) { cross_entropy_formula(l, op, v); });
  return c;
}

}  // namespace

template <>
std::vector<Case<EmbeddingForward>> cases<EmbeddingForward>(Scale scale) {
  std::vector<Case<EmbeddingForward>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& part : parts(scale))
      for (const bool accumulate : {false, true}) all.push_back(embedding_forward(part, accumulate, dtype));
  return all;
}

template <>
std::vector<Case<EmbeddingBackward>> cases<EmbeddingBackward>(Scale scale) {
  std::vector<Case<EmbeddingBackward>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& part : parts(scale)) all.push_back(embedding_backward(part, dtype));
  return all;
}

template <>
std::vector<Case<VocabStats>> cases<VocabStats>(Scale scale) {
  std::vector<Case<VocabStats>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& l : logits(scale)) all.push_back(vocab_stats(l, dtype));
  return all;
}

template <>
std::vector<Case<CrossEntropy>> cases<CrossEntropy>(Scale scale) {
  std::vector<Case<CrossEntropy>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& l : logits(scale)) {
      all.push_back(cross_entropy(l, true, false, dtype));
      if (scale == Scale::test) all.push_back(cross_entropy(l, false, true, dtype));
    }
  return all;
}

}  // namespace fivefold::cases
