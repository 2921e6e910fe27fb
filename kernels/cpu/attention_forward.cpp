// Attention output by tiles with a running maximum and sum (Milakov & Gimelshein 2018; Dao et al. 2022).
#include <cmath>

#include "kernels/cpu/attention_strip.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {
namespace {

// Running soft-max of 16 queries.
template <class A>
struct Running {
  static constexpr A kNothing = -std::numeric_limits<A>::infinity();
  A top[kStrip], sum[kStrip], rescale[kStrip];

  Running() {
    std::fill_n(top, kStrip, kNothing);
    std::fill_n(sum, kStrip, A(0));
  }

  // Scores [keys, 16] become exp(score - maximum so far); `rescale` is what earlier sums and products shrink
  // by.
  void absorb(std::int64_t keys, A* s) {
    A now[kStrip], base[kStrip], added[kStrip] = {};
    std::copy_n(top, kStrip, now);
    raise_panel(keys, s, now);
    for (std::int64_t i = 0; i < kStrip; ++i) base[i] = now[i] == kNothing ? A(0) : now[i];
    for (std::int64_t i = 0; i < kStrip; ++i) rescale[i] = exp_of(top[i] - base[i]);
    for (std::int64_t j = 0; j < keys; ++j)
      for (std::int64_t i = 0; i < kStrip; ++i) {
        const A p = exp_of(s[j * kStrip + i] - base[i]);
        s[j * kStrip + i] = p;
        added[i] += p;
      }
    for (std::int64_t i = 0; i < kStrip; ++i) sum[i] = sum[i] * rescale[i] + added[i];
    std::copy_n(now, kStrip, top);
  }
};

template <class T>
class Forward {
  using A = Accum<T>;

 public:
  Forward(const AttentionForward& op, const CpuContext& ctx)
      : op_(op),
        plan_(plan_attention(op.q_index, op.first_visible, op.k_index)),
        slots_(slots_for(ctx, op.q.dim(1) * blocks(), block_cost())) {
    ScratchParts<A> parts(ctx.scratch.get<A>(packed_count() + slots_ * slot_count()));
    if constexpr (!std::is_same_v<T, A>) packed_k_ = parts.take(keys() * kv_heads() * dim());
    packed_v_ = parts.take(keys() * kv_heads() * value_width());
    slots_begin_ = parts.take(slots_ * slot_count());
  }

  void run() {
    pack_keys();
    const std::int64_t heads = op_.q.dim(1);
    // Later blocks see more keys under a causal mask: first the long tasks, then the short ones.
    for_each_task(slots_, heads * blocks(), [&](std::int64_t task, std::int64_t slot) {
      run_block(task / blocks(), plan_.blocks[static_cast<std::size_t>(blocks() - 1 - task % blocks())],
                slot);
    });
  }

 private:
  std::int64_t blocks() const { return static_cast<std::int64_t>(plan_.blocks.size()); }
  std::int64_t keys() const { return op_.k.dim(0); }
  std::int64_t kv_heads() const { return op_.k.dim(1); }
  std::int64_t dim() const { return op_.q.dim(2); }
  std::int64_t width() const { return round_up(dim(), kPanel); }
  std::int64_t value_dim() const { return op_.v.dim(2); }
  std::int64_t value_width() const { return round_up(value_dim(), kPanel); }
  std::int64_t block_cost() const {
    const auto seen = static_cast<std::int64_t>(plan_.visible.size());
    return seen * kBlockRows * kTileKeys * (dim() + value_dim()) / kPairsOfNanosecond /
           std::max<std::int64_t>(blocks(), 1);
  }
  std::int64_t packed_count() const {
    const std::int64_t k = std::is_same_v<T, A> ? 0 : ScratchParts<A>::padded(keys() * kv_heads() * dim());
    return k + ScratchParts<A>::padded(keys() * kv_heads() * value_width());
  }
  // Per slot: queries in both layouts, scores, output.
  std::int64_t slot_count() const { return kStrip * (2 * width() + kTileKeys + value_width()); }

  void pack_keys() {
    const std::int64_t count = kv_heads() * static_cast<std::int64_t>(plan_.tiles.size());
    parallel_for(static_cast<int>(slots_), count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        pack_tile(i % kv_heads(), plan_.tiles[static_cast<std::size_t>(i / kv_heads())]);
    });
  }

  void pack_tile(std::int64_t head, const KeyTile& tile) {
    const std::int64_t rows = tile.end - tile.begin, row = head * keys() + tile.begin;
    const auto pack = [&](const Tensor& from, A* to, std::int64_t ld) {
      const std::int64_t width = from.dim(2), stride = from.dim(1) * width;
      pack_rows(from.data<T>() + tile.begin * stride + head * width, stride, rows, width, A(1), to + row * ld,
                ld);
    };
    if constexpr (!std::is_same_v<T, A>) pack(op_.k, packed_k_, dim());
    pack(op_.v, packed_v_, value_width());
  }

  HeadRows<A> key_rows() const {
    if constexpr (std::is_same_v<T, A>)
      return {op_.k.data<T>(), dim(), kv_heads() * dim()};
    else
      return {packed_k_, keys() * dim(), dim()};
  }
  HeadRows<A> value_rows() const { return {packed_v_, keys() * value_width(), value_width()}; }

  void run_block(std::int64_t head, const QueryBlock& block, std::int64_t slot) const {
    for (std::int64_t s = 0; s < block.strips; ++s) {
      const std::int64_t begin = block.begin + s * kStrip;
      run_strip(head, block, plan_.strips[static_cast<std::size_t>(block.first_strip + s)], begin,
                std::min(kStrip, block.end - begin), slot);
    }
  }

  void run_strip(std::int64_t head, const QueryBlock& block, const QueryStrip& strip, std::int64_t begin,
                 std::int64_t rows, std::int64_t slot) const {
    ScratchParts<A> parts(slots_begin_ + slot * slot_count());
    A* const packed = parts.take(kStrip * width());     // [16, hd]
    A* const q = parts.take(kStrip * width());          // [hd, 16]
    A* const s = parts.take(kTileKeys * kStrip);        // [keys, 16]
    A* const out = parts.take(kStrip * value_width());  // [16, vd]
    load_queries(head, begin, rows, packed, q);
    const A scale = static_cast<A>(op_.scale);
    std::fill_n(out, kStrip * value_width(), A(0));
    Running<A> running;
    const std::int64_t kv_head = head / (op_.q.dim(1) / kv_heads());
    for (const std::int64_t t : plan_.tiles_of(block)) {
      const KeyTile& tile = plan_.tiles[static_cast<std::size_t>(t)];
      const StripSight sight = plan_.sight(strip, tile);
      if (sight.empty()) continue;
      const std::int64_t first = tile.begin + sight.begin, count = sight.end - sight.begin;
      multiply_tile<A>(count, kStrip, dim(), {key_rows().at(kv_head, first), key_rows().row_stride, 1}, q,
                       kStrip, s, kStrip, false);
      // Here and not on the queries: products of bf16 numbers are exact, those of scaled ones are not.
      for (std::int64_t i = 0; i < count * kStrip; ++i) s[i] *= scale;
      if (!sight.whole) mask_strip(strip, plan_.k_index.data() + first, count, s, kStrip);
      running.absorb(count, s);
      round_strip<T>(count, s, kStrip);
      shrink(running.rescale, out);
      multiply_tile<A>(kStrip, value_width(), count, {s, 1, kStrip}, value_rows().at(kv_head, first),
                       value_width(), out, value_width(), true);
    }
    finish(head, begin, rows, running, out);
  }

  // q [hd, 16] = the rows of the strip; `packed` is room for them.
  void load_queries(std::int64_t head, std::int64_t begin, std::int64_t rows, A* packed, A* q) const {
    const std::int64_t stride = op_.q.dim(1) * dim();
    const T* const src = op_.q.data<T>() + begin * stride + head * dim();
    pack_rows(src, stride, rows, dim(), A(1), packed, width());
    std::fill(packed + rows * width(), packed + kStrip * width(), A(0));
    transpose_strip(packed, width(), q);
  }

  void shrink(const A* rescale, A* out) const {
    if (std::all_of(rescale, rescale + kStrip, [](A x) { return x == A(1); })) return;
    for (std::int64_t i = 0; i < kStrip; ++i)
      for (std::int64_t c = 0; c < value_width(); ++c) out[i * value_width() + c] *= rescale[i];
  }

  void finish(std::int64_t head, std::int64_t begin, std::int64_t rows, const Running<A>& running,
              const A* out) const {
    const std::int64_t heads = op_.q.dim(1);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t row = (begin + i) * heads + head;
      const bool blind = running.sum[i] == A(0);
      const A inverse = blind ? A(0) : A(1) / running.sum[i];
      write_row<T>(op_.out, row, value_dim(), inverse, out + i * value_width());
      op_.lse.data<A>()[row] = blind ? Running<A>::kNothing : running.top[i] + std::log(running.sum[i]);
    }
  }

  const AttentionForward& op_;
  const AttentionPlan plan_;
  std::int64_t slots_;
  A* packed_k_ = nullptr;  // [Hk, Tk, hd], where k is not in the arithmetic type
  A* packed_v_ = nullptr;  // [Hk, Tk, vd rounded up]
  A* slots_begin_ = nullptr;
};

}  // namespace

void execute(const AttentionForward& op, const CpuContext& ctx) {
  with_float(op.q.dtype(), [&](auto t) { Forward<decltype(t)>(op, ctx).run(); });
}

}  // namespace fivefold::cpu
