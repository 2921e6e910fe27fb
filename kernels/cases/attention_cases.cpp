// Cases of attention and of the merge of partial results.
#include <cmath>
#include <limits>

#include "kernels/cases/masks.h"
#include "kernels/cases/place.h"
#include "kernels/cases/shapes.h"

namespace fivefold::cases {
namespace {

struct Heads {
  std::int64_t q, kv, dim, value_dim;
};
std::string to_string(const Heads& h) {
  return str("H=", h.q, "_", h.kv, ",hd=", h.dim, ",vd=", h.value_dim);
}

// Plain loops over one head: visits the keys that query t of head h sees.
struct Loops {
  Mask mask;
  Heads heads;

  template <class F>
  void queries(F f) const {
    for (std::int64_t t = 0; t < mask.queries(); ++t)
      for (std::int64_t h = 0; h < heads.q; ++h) f(t, h);
  }
  template <class F>
  void keys_of(std::int64_t t, F f) const {
    for (std::int64_t j = 0; j < mask.keys(); ++j)
      if (mask.sees(t, j)) f(j);
  }
  std::size_t q_at(std::int64_t t, std::int64_t h) const {
    return static_cast<std::size_t>((t * heads.q + h) * heads.dim);
  }
  std::size_t out_at(std::int64_t t, std::int64_t h) const {
    return static_cast<std::size_t>((t * heads.q + h) * heads.value_dim);
  }
  std::size_t lse_at(std::int64_t t, std::int64_t h) const {
    return static_cast<std::size_t>(t * heads.q + h);
  }
  std::size_t k_at(std::int64_t j, std::int64_t h) const {
    return static_cast<std::size_t>((j * heads.kv + h / (heads.q / heads.kv)) * heads.dim);
  }
  std::size_t v_at(std::int64_t j, std::int64_t h) const {
    return static_cast<std::size_t>((j * heads.kv + h / (heads.q / heads.kv)) * heads.value_dim);
  }
  std::size_t dim() const { return static_cast<std::size_t>(heads.dim); }
  std::size_t value_dim() const { return static_cast<std::size_t>(heads.value_dim); }
};

template <class R>
R product(const std::vector<R>& a, std::size_t at_a, const std::vector<R>& b, std::size_t at_b,
          std::size_t count) {
  R sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[at_a + i] * b[at_b + i];
  return sum;
}

template <class R>
void forward_formula(const Loops& loops, double scale, Values<R>& v) {
  const auto &q = v["q"], &k = v["k"], &values = v["v"];
  auto &out = v["out"], &lse = v["lse"];
  loops.queries([&](std::int64_t t, std::int64_t h) {
    const auto score = [&](std::int64_t j) {
      return static_cast<R>(scale) * product(q, loops.q_at(t, h), k, loops.k_at(j, h), loops.dim());
    };
    R top = -std::numeric_limits<R>::infinity(), sum = 0;
    loops.keys_of(t, [&](std::int64_t j) { top = std::max(top, score(j)); });
    std::vector<R> row(loops.value_dim());
    loops.keys_of(t, [&](std::int64_t j) {
      const R p = std::exp(score(j) - top);
      sum += p;
      for (std::size_t c = 0; c < row.size(); ++c) row[c] += v.rounded(p) * values[loops.v_at(j, h) + c];
    });
    for (std::size_t c = 0; c < row.size(); ++c) out[loops.out_at(t, h) + c] = sum == 0 ? R(0) : row[c] / sum;
    lse[loops.lse_at(t, h)] = top + (sum == 0 ? R(0) : std::log(sum));
  });
}

template <class R>
void backward_formula(const Loops& loops, double scale_, Values<R>& v) {
  const auto scale = static_cast<R>(scale_);
  const auto &q = v["q"], &k = v["k"], &values = v["v"], &d_out = v["d_out"];
  auto &dq = v["dq"], &dk = v["dk"], &dv = v["dv"];
  for (auto* gradient : {&dq, &dk, &dv}) std::fill(gradient->begin(), gradient->end(), R(0));
  loops.queries([&](std::int64_t t, std::int64_t h) {
    const auto at_q = loops.q_at(t, h), at_out = loops.out_at(t, h);
    const R delta = product(v["out"], at_out, d_out, at_out, loops.value_dim());
    loops.keys_of(t, [&](std::int64_t j) {
      const auto at_k = loops.k_at(j, h), at_v = loops.v_at(j, h);
      const R p = std::exp(scale * product(q, at_q, k, at_k, loops.dim()) - v["lse"][loops.lse_at(t, h)]);
      const R ds = v.rounded(p * (product(d_out, at_out, values, at_v, loops.value_dim()) - delta));
      for (std::size_t c = 0; c < loops.value_dim(); ++c) dv[at_v + c] += v.rounded(p) * d_out[at_out + c];
      for (std::size_t c = 0; c < loops.dim(); ++c) {
        dq[at_q + c] += scale * ds * k[at_k + c];
        dk[at_k + c] += scale * ds * q[at_q + c];
      }
    });
  });
}

// The operands both ops have. Scores of a few units, so that probabilities differ.
template <class Op>
void add_inputs(Case<Op>& c, const Mask& mask, const Heads& heads) {
  c.input("q", &Op::q, {mask.queries(), heads.q, heads.dim}, c.dtype, uniform(-3, 3));
  c.input("k", &Op::k, {mask.keys(), heads.kv, heads.dim}, c.dtype, uniform(-3, 3, 1));
  c.input("v", &Op::v, {mask.keys(), heads.kv, heads.value_dim}, c.dtype);
  c.input("q_index", &Op::q_index, {mask.queries()}, DType::i32, listed(mask.q_index));
  c.input("first_visible", &Op::first_visible, {mask.queries()}, DType::i32, listed(mask.first_visible));
  c.input("k_index", &Op::k_index, {mask.keys()}, DType::i32, listed(mask.k_index));
  c.op.scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(heads.dim, 1)));
  c.op.visible_pairs = mask.visible_pairs();
}

// `wide`: results of a ring's step stay in the accumulate dtype.
Case<AttentionForward> forward_case(const Mask& mask, const Heads& heads, bool wide, DType dtype) {
  Case<AttentionForward> c(str("mask=", mask.name, ",", to_string(heads), ",wide=", wide), dtype);
  add_inputs(c, mask, heads);
  c.output("out", &AttentionForward::out, {mask.queries(), heads.q, heads.value_dim},
           wide ? accum_dtype(dtype) : dtype);
  c.output("lse", &AttentionForward::lse, {mask.queries(), heads.q}, accum_dtype(dtype)).cuts =
      dtype == DType::bf16 ? heads.dim / 16 : 0;
  c.formula([loops = Loops{mask, heads}](const AttentionForward& op, auto& v) {
    forward_formula(loops, op.scale, v);
  });
  return c;
}

Case<AttentionBackward> backward_case(const Mask& mask, const Heads& heads, bool wide, DType dtype) {
  Case<AttentionBackward> c(str("mask=", mask.name, ",", to_string(heads), ",wide=", wide), dtype);
  add_inputs(c, mask, heads);
  const DType result = wide ? accum_dtype(dtype) : dtype;
  const Shape out{mask.queries(), heads.q, heads.value_dim};
  c.input("out", &AttentionBackward::out, out, result);
  c.input("lse", &AttentionBackward::lse, {mask.queries(), heads.q}, accum_dtype(dtype), uniform(9, 11));
  c.input("d_out", &AttentionBackward::d_out, out, dtype);
  c.output("dq", &AttentionBackward::dq, {mask.queries(), heads.q, heads.dim}, result);
  c.output("dk", &AttentionBackward::dk, {mask.keys(), heads.kv, heads.dim}, result);
  c.output("dv", &AttentionBackward::dv, {mask.keys(), heads.kv, heads.value_dim}, result);
  const Loops loops{mask, heads};
  c.prepare = [loops](const AttentionBackward& op, Values<double>& v) {
    forward_formula(loops, op.scale, v);
  };
  c.formula([loops](const AttentionBackward& op, auto& v) { backward_formula(loops, op.scale, v); });
  c.objective = [base = forward_case(mask, heads, wide, dtype)](const Machine& machine,
                                                                const Values<double>& v) {
    auto forward = base;
    for (const auto* name : {"q", "k", "v"}) forward.set(name, v[name]);
    return dot(evaluate(machine, forward)["out"], v["d_out"]);
  };
  c.gradients = {{"q", "dq"}, {"k", "dk"}, {"v", "dv"}};
  return c;
}

// Heads of the widths that tensor cores take on a GPU, with rows about the edges of their tiles of 64 and
// 128; windows, documents and chunks that end inside tiles; tiles that all, some and no rows see.
template <class Add>
void add_tile_edges(Add add) {
  const std::vector<std::int64_t> documents{1, 40, 5, 64, 130, 33, 7}, real_lengths{80, 9, 0, 33};
  add(causal_mask(1, 63), {2, 1, 64, 64});
  add(causal_mask(2, 64), {2, 2, 96, 96});
  add(causal_mask(1, 65), {4, 2, 128, 128});
  add(causal_mask(1, 127), {2, 1, 96, 96}, true);
  add(causal_mask(1, 128), {2, 1, 192, 128});
  add(causal_mask(1, 129), {4, 1, 64, 64});
  add(causal_mask(1, 420), {2, 1, 64, 64}, true);
  add(causal_mask(1, 300), {2, 1, 128, 128});
  add(causal_mask(2, 150), {2, 1, 256, 256});
  add(causal_mask(3, 100, 70), {2, 1, 128, 128}, true);
  add(causal_mask(2, 130, 40), {2, 1, 192, 128}, true);
  add(full_mask(3, 500), {1, 1, 64, 64});
  add(full_mask(200, 3), {2, 1, 128, 128});
  add(full_mask(70, 200), {2, 1, 256, 256}, true);
  add(document_mask(documents), {2, 2, 64, 64});
  add(document_mask(documents), {3, 1, 128, 128});
  add(padded_mask(80, real_lengths), {2, 1, 128, 128});
  add(ring_mask(2, 256, 2, 0, 1), {2, 1, 64, 64}, true);
  add(ring_mask(1, 512, 2, 1, 0), {2, 1, 128, 128}, true);
  add(ring_mask(3, 64, 4, 0, 3), {2, 1, 96, 96}, true);
}

template <class Op, class Make>
std::vector<Case<Op>> over_masks(Scale scale, Make make) {
  std::vector<Case<Op>> all;
  const auto add = [&](const Mask& mask, const Heads& heads, bool wide = false) {
    for (const auto dtype : floats_of(scale)) all.push_back(make(mask, heads, wide, dtype));
  };
  if (scale == Scale::large) {
    for (const auto& mask : {causal_mask(4, 4096), causal_mask(2, 8192)})
      for (const std::int64_t dim : {64, 128}) add(mask, {32, 8, dim, dim});
    add(causal_mask(4, 4096), {32, 8, 96, 96});
    add(causal_mask(4, 4096), {16, 16, 192, 128});
    add(causal_mask(1, 16384), {32, 8, 128, 128});
    add(causal_mask(2, 8192, 4096), {32, 8, 128, 128});
    return all;
  }
  if (scale == Scale::bench) {
    add(causal_mask(8, 256), {4, 4, 64, 64});
    add(causal_mask(1, 2048), {4, 4, 64, 64});
    add(causal_mask(1, 2048), {8, 2, 128, 128});
    return all;
  }
  const std::vector<std::int64_t> documents{1, 40, 5, 64, 33, 7}, real_lengths{16, 9, 0, 1};
  add(causal_mask(2, 37), {2, 1, 8, 8});
  add(causal_mask(1, 1), {1, 1, 1, 1});
  add(causal_mask(0, 1), {2, 2, 4, 4});
  add(causal_mask(2, 45, 20), {6, 2, 16, 24});
  add(causal_mask(1, 9), {2, 1, 256, 256});
  add(causal_mask(1, 130), {2, 2, 24, 16});
  add(full_mask(19, 45), {3, 3, 20, 5});
  add(document_mask(documents), {2, 2, 20, 12});
  add(padded_mask(16, real_lengths), {2, 1, 12, 12});
  add(ring_mask(2, 96, 2, 0, 1), {2, 1, 16, 16}, true);
  add(ring_mask(1, 64, 2, 1, 0), {2, 2, 16, 16}, true);
  add(ring_mask(3, 16, 4, 0, 3), {2, 2, 8, 8}, true);
  add_tile_edges([&](const Mask& mask, const Heads& heads, bool wide = false) {
    all.push_back(make(mask, heads, wide, DType::bf16));
  });
  return all;
}

Case<AttentionMerge> merge_case(std::int64_t T, std::int64_t H, std::int64_t vd, DType other, DType dtype) {
  Case<AttentionMerge> c(str("T=", T, ",H=", H, ",vd=", vd, ",other=", other), dtype);
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  // Every third row of one side and every fifth of the other saw nothing; far apart otherwise in places.
  const auto lse = [](std::int64_t skip, std::uint64_t seed) {
    return
        [=, spread = uniform(-60, 60, seed)](std::int64_t i) { return i % skip == 0 ? kNothing : spread(i); };
  };
  c.inout("out", &AttentionMerge::out, {T, H, vd}, accum_dtype(dtype));
  c.inout("lse", &AttentionMerge::lse, {T, H}, accum_dtype(dtype), lse(3, 1));
  c.input("other_out", &AttentionMerge::other_out, {T, H, vd}, other, uniform(-1, 1, 2));
  c.input("other_lse", &AttentionMerge::other_lse, {T, H}, accum_dtype(dtype), lse(5, 2));
  c.formula([width = static_cast<std::size_t>(vd)](const AttentionMerge&, auto& v) {
    auto &out = v["out"], &sums = v["lse"];
    for (std::size_t row = 0; row < sums.size(); ++row) {
      const auto theirs = v["other_lse"][row], top = std::max(sums[row], theirs);
      if (std::isinf(top)) continue;
      const auto mine = std::exp(sums[row] - top), others = std::exp(theirs - top);
      for (std::size_t i = row * width; i < (row + 1) * width; ++i)
        out[i] = (mine * out[i] + others * v["other_out"][i]) / (mine + others);
      sums[row] = top + std::log(mine + others);
    }
  });
  return c;
}

}  // namespace

template <>
std::vector<Case<AttentionForward>> cases<AttentionForward>(Scale scale) {
  return over_masks<AttentionForward>(scale, forward_case);
}

template <>
std::vector<Case<AttentionBackward>> cases<AttentionBackward>(Scale scale) {
  return over_masks<AttentionBackward>(scale, backward_case);
}

template <>
std::vector<Case<AttentionMerge>> cases<AttentionMerge>(Scale scale) {
  std::vector<Case<AttentionMerge>> all;
  for (const auto dtype : floats_of(scale)) {
    if (scale != Scale::test) {
      const std::int64_t larger = scale == Scale::large ? 8 : 1;
      all.push_back(merge_case(larger * 2048, larger * 4, 64, dtype, dtype));
      continue;
    }
    all.push_back(merge_case(5, 3, 7, dtype, dtype));
    all.push_back(merge_case(40, 4, 16, accum_dtype(dtype), dtype));
    all.push_back(merge_case(0, 2, 4, dtype, dtype));
  }
  return all;
}

}  // namespace fivefold::cases
