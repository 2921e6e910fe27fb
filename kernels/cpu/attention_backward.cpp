// Gradients of attention by tiles, with the probabilities computed again from the log-sum-exp (Dao et al.
// 2022).
//
// A task owns the keys of one kv head and one component and walks over the query blocks that see them, so dk
// and dv need no atomics and dq of a block is complete when the block is done. Where that makes too few tasks
// the blocks of a component are dealt to several parts, each with its own sums of dk and dv, added in order
// at the end. Tasks depend on the shapes and the mask only: results do not depend on the number of threads.
#include <cmath>

#include "kernels/cpu/attention_strip.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/vector_math.h"

namespace fivefold::cpu {
namespace {

constexpr std::int64_t kFewestTasks = 16;

template <class T>
class Backward {
  using A = Accum<T>;
  using Parts = ScratchParts<A>;

 public:
  Backward(const AttentionBackward& op, const CpuContext& ctx)
      : op_(op),
        plan_(plan_attention(op.q_index, op.first_visible, op.k_index)),
        components_(components_of(plan_)),
        parts_(ceil_div(kFewestTasks, std::max<std::int64_t>(kv_heads() * components(), 1))),
        slots_(slots_for(ctx, kv_heads() * components() * parts_, task_cost())) {
    const std::int64_t rows = keys() * kv_heads();
    Parts parts(ctx.scratch.get<A>((1 + parts_) *
                                       (Parts::padded(rows * k_width()) + Parts::padded(rows * v_width())) +
                                   slots_ * Block::count(dim(), value_dim())));
    packed_k_ = parts.take(rows * k_width());
    packed_v_ = parts.take(rows * v_width());
    for (std::int64_t p = 0; p < parts_; ++p) {
      dk_.push_back(parts.take(rows * k_width()));
      dv_.push_back(parts.take(rows * v_width()));
    }
    slots_begin_ = parts.take(slots_ * Block::count(dim(), value_dim()));
  }

  void run() {
    const std::int64_t tasks = kv_heads() * components();
    for_each_task(slots_, tasks,
                  [&](std::int64_t task, std::int64_t) { prepare_keys(task % kv_heads(), component(task)); });
    for_each_task(slots_, tasks * parts_, [&](std::int64_t task, std::int64_t slot) {
      run_part(task / parts_ % kv_heads(), component(task / parts_), task % parts_, slot);
    });
    for_each_task(slots_, tasks,
                  [&](std::int64_t task, std::int64_t) { finish_keys(task % kv_heads(), component(task)); });
  }

 private:
  // Room for what is done with one block of queries. Strips follow one another; padding rows are zero.
  struct Block {
    A *q, *q_strips;          // [64, hd rounded up], [4][hd, 16], both scaled
    A *d_out, *d_out_strips;  // [64, vd rounded up], [4][vd, 16]
    A *p, *ds;                // [keys, 64]
    A* dq;                    // [64, hd rounded up]
    A *lse, *delta;           // [64]

    static std::int64_t count(std::int64_t dim, std::int64_t value_dim) {
      const std::int64_t widths = 3 * round_up(dim, kPanel) + 2 * round_up(value_dim, kPanel);
      return Parts::padded(kBlockRows * (widths + 2 * kTileKeys + 2));
    }
    Block(A* begin, std::int64_t dim, std::int64_t value_dim) {
      Parts parts(begin);
      for (A** rows : {&q, &q_strips, &dq}) *rows = parts.take(kBlockRows * round_up(dim, kPanel));
      for (A** rows : {&d_out, &d_out_strips}) *rows = parts.take(kBlockRows * round_up(value_dim, kPanel));
      for (A** pairs : {&p, &ds}) *pairs = parts.take(kBlockRows * kTileKeys);
      for (A** scalars : {&lse, &delta}) *scalars = parts.take(kBlockRows);
    }
  };
  // What a task adds to: row j of its kv head.
  struct KeyGradients {
    A *dk, *dv;
  };
  using Sights = std::array<StripSight, kStripsOfBlock>;

  std::int64_t keys() const { return op_.k.dim(0); }
  std::int64_t heads() const { return op_.q.dim(1); }
  std::int64_t kv_heads() const { return op_.k.dim(1); }
  std::int64_t dim() const { return op_.q.dim(2); }
  std::int64_t value_dim() const { return op_.v.dim(2); }
  std::int64_t k_width() const { return round_up(dim(), kPanel); }
  std::int64_t v_width() const { return round_up(value_dim(), kPanel); }
  std::int64_t components() const { return static_cast<std::int64_t>(components_.size()); }
  const AttentionComponent& component(std::int64_t task) const {
    return components_[static_cast<std::size_t>(task / kv_heads())];
  }
  const KeyTile& tile_at(std::int64_t t) const { return plan_.tiles[static_cast<std::size_t>(t)]; }
  const QueryBlock& block_at(std::int64_t b) const { return plan_.blocks[static_cast<std::size_t>(b)]; }
  std::int64_t task_cost() const {
    const auto seen = static_cast<std::int64_t>(plan_.visible.size());
    return seen * kBlockRows * kTileKeys * (dim() + value_dim()) * 5 / 2 / kPairsOfNanosecond * heads() /
           std::max<std::int64_t>(kv_heads() * components() * parts_, 1);
  }

  // Calls f(first key, end) for the keys of a component, if it has any.
  template <class F>
  void with_keys(const AttentionComponent& c, F&& f) const {
    if (c.tile_begin < c.tile_end) f(tile_at(c.tile_begin).begin, tile_at(c.tile_end - 1).end);
  }
  const A* k_row(std::int64_t head, std::int64_t row) const {
    return packed_k_ + (head * keys() + row) * k_width();
  }
  const A* v_row(std::int64_t head, std::int64_t row) const {
    return packed_v_ + (head * keys() + row) * v_width();
  }
  KeyGradients gradients(std::int64_t part, std::int64_t head, std::int64_t row) const {
    const std::int64_t at = head * keys() + row;
    return {dk_[static_cast<std::size_t>(part)] + at * k_width(),
            dv_[static_cast<std::size_t>(part)] + at * v_width()};
  }

  void prepare_keys(std::int64_t head, const AttentionComponent& c) const {
    with_keys(c, [&](std::int64_t begin, std::int64_t end) {
      const auto pack = [&](const Tensor& from, A* to, std::int64_t ld) {
        const std::int64_t width = from.dim(2), stride = from.dim(1) * width;
        pack_rows(from.data<T>() + begin * stride + head * width, stride, end - begin, width, A(1), to, ld);
      };
      pack(op_.k, const_cast<A*>(k_row(head, begin)), k_width());
      pack(op_.v, const_cast<A*>(v_row(head, begin)), v_width());
    });
  }

  void run_part(std::int64_t kv_head, const AttentionComponent& c, std::int64_t part,
                std::int64_t slot) const {
    with_keys(c, [&](std::int64_t begin, std::int64_t end) {
      const auto sums = gradients(part, kv_head, begin);
      std::fill_n(sums.dk, (end - begin) * k_width(), A(0));
      std::fill_n(sums.dv, (end - begin) * v_width(), A(0));
    });
    const std::int64_t group = heads() / kv_heads();
    std::int64_t total = 0, before = 0;
    for (const auto b : c.blocks) total += group * weight(block_at(b));
    for (std::int64_t g = 0; g < group; ++g)
      for (const auto b : c.blocks) {
        if (before * parts_ / total == part) run_block(kv_head * group + g, kv_head, block_at(b), part, slot);
        before += weight(block_at(b));
      }
  }
  static std::int64_t weight(const QueryBlock& block) { return 1 + block.visible_end - block.visible_begin; }

  void run_block(std::int64_t head, std::int64_t kv_head, const QueryBlock& block, std::int64_t part,
                 std::int64_t slot) const {
    const Block room(slots_begin_ + slot * Block::count(dim(), value_dim()), dim(), value_dim());
    load_block(head, block, room);
    for (const std::int64_t t : plan_.tiles_of(block)) {
      const KeyTile& tile = tile_at(t);
      Sights sights;
      for (std::int64_t s = 0; s < block.strips; ++s)
        sights[static_cast<std::size_t>(s)] = run_strip(kv_head, block, tile, s, room);
      add_to_keys(sights, block.strips, tile.end - tile.begin, room, gradients(part, kv_head, tile.begin));
    }
    for (std::int64_t i = 0; i < block.end - block.begin; ++i)
      write_row<T>(op_.dq, (block.begin + i) * heads() + head, dim(), static_cast<A>(op_.scale),
                   room.dq + i * k_width());
  }

  // Queries and output gradients in both layouts. Rows that see nothing are loaded as zeros with lse = inf,
  // which makes their probabilities and gradients 0 whatever their contents.
  void load_block(std::int64_t head, const QueryBlock& block, const Block& room) const {
    for (std::int64_t i = 0; i < block.strips * kStrip; ++i)
      load_row(head, block.begin + i, block.end, i, room);
    for (std::int64_t s = 0; s < block.strips; ++s) {
      transpose_strip(room.q + s * kStrip * k_width(), k_width(), room.q_strips + s * kStrip * k_width());
      transpose_strip(room.d_out + s * kStrip * v_width(), v_width(),
                      room.d_out_strips + s * kStrip * v_width());
    }
    std::fill_n(room.dq, block.strips * kStrip * k_width(), A(0));
  }

  void load_row(std::int64_t head, std::int64_t query, std::int64_t end, std::int64_t i,
                const Block& room) const {
    constexpr A kInfinity = std::numeric_limits<A>::infinity();
    const std::int64_t row = query * heads() + head;
    A* const q = room.q + i * k_width();
    A* const d_out = room.d_out + i * v_width();
    const A lse = query < end ? op_.lse.data<A>()[row] : -kInfinity;
    room.lse[i] = lse == -kInfinity ? kInfinity : lse;
    room.delta[i] = 0;
    if (lse == -kInfinity) {
      std::fill_n(q, k_width(), A(0));
      std::fill_n(d_out, v_width(), A(0));
      return;
    }
    pack_rows(op_.q.data<T>() + row * dim(), 0, 1, dim(), static_cast<A>(op_.scale), q, k_width());
    pack_rows(op_.d_out.data<T>() + row * value_dim(), 0, 1, value_dim(), A(1), d_out, v_width());
    room.delta[i] = op_.out.dtype() == dtype_of<T>() ? dot(op_.out.data<T>() + row * value_dim(), d_out)
                                                     : dot(op_.out.data<A>() + row * value_dim(), d_out);
  }
  template <class Out>
  A dot(const Out* out, const A* d_out) const {
    A sum = 0;
    for (std::int64_t c = 0; c < value_dim(); ++c) sum += static_cast<A>(out[c]) * d_out[c];
    return sum;
  }

  // Probabilities and score gradients of one strip with one tile, and their part of dq.
  StripSight run_strip(std::int64_t kv_head, const QueryBlock& block, const KeyTile& tile, std::int64_t s,
                       const Block& room) const {
    const QueryStrip& strip = plan_.strips[static_cast<std::size_t>(block.first_strip + s)];
    const StripSight sight = plan_.sight(strip, tile);
    clear_unseen(sight, tile.end - tile.begin, room.p + s * kStrip);
    clear_unseen(sight, tile.end - tile.begin, room.ds + s * kStrip);
    if (sight.empty()) return sight;
    const std::int64_t first = tile.begin + sight.begin, count = sight.end - sight.begin;
    A* const p = room.p + sight.begin * kBlockRows + s * kStrip;
    A* const ds = room.ds + sight.begin * kBlockRows + s * kStrip;
    multiply_tile<A>(count, kStrip, dim(), {k_row(kv_head, first), k_width(), 1},
                     room.q_strips + s * kStrip * k_width(), kStrip, p, kBlockRows, false);
    multiply_tile<A>(count, kStrip, value_dim(), {v_row(kv_head, first), v_width(), 1},
                     room.d_out_strips + s * kStrip * v_width(), kStrip, ds, kBlockRows, false);
    if (!sight.whole) mask_strip(strip, plan_.k_index.data() + first, count, p, kBlockRows);
    differentiate(count, room.lse + s * kStrip, room.delta + s * kStrip, p, ds);
    round_strip<T>(count, p, kBlockRows);
    round_strip<T>(count, ds, kBlockRows);
    multiply_tile<A>(kStrip, k_width(), count, {ds, 1, kBlockRows}, k_row(kv_head, first), k_width(),
                     room.dq + s * kStrip * k_width(), k_width(), true);
    return sight;
  }

  static void clear_unseen(const StripSight& sight, std::int64_t keys_of_tile, A* pairs) {
    const auto clear = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) std::fill_n(pairs + j * kBlockRows, kStrip, A(0));
    };
    clear(0, sight.begin);
    clear(std::max(sight.begin, sight.end), keys_of_tile);
  }

  // p: scores -> probabilities; ds: gradients of the probabilities -> gradients of the scores.
  static void differentiate(std::int64_t count, const A* lse, const A* delta, A* p, A* ds) {
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t i = 0; i < kStrip; ++i) {
        const std::int64_t at = j * kBlockRows + i;
        p[at] = exp_of(p[at] - lse[i]);
        ds[at] = p[at] * (ds[at] - delta[i]);
      }
  }

  // dv += p^T d_out and dk += ds^T q, 16 keys at a time with the strips that see any of them.
  void add_to_keys(const Sights& sights, std::int64_t strips, std::int64_t keys_of_tile, const Block& room,
                   KeyGradients sums) const {
    for (std::int64_t begin = 0; begin < keys_of_tile; begin += kStrip) {
      const std::int64_t end = std::min(begin + kStrip, keys_of_tile);
      std::int64_t from = strips, to = 0;
      for (std::int64_t s = 0; s < strips; ++s) {
        const auto& sight = sights[static_cast<std::size_t>(s)];
        if (sight.begin >= end || sight.end <= begin) continue;
        from = std::min(from, s);
        to = s + 1;
      }
      if (from >= to) continue;
      const std::int64_t pairs = begin * kBlockRows + from * kStrip, rows = (to - from) * kStrip;
      multiply_tile<A>(end - begin, v_width(), rows, {room.p + pairs, kBlockRows, 1},
                       room.d_out + from * kStrip * v_width(), v_width(), sums.dv + begin * v_width(),
                       v_width(), true);
      multiply_tile<A>(end - begin, k_width(), rows, {room.ds + pairs, kBlockRows, 1},
                       room.q + from * kStrip * k_width(), k_width(), sums.dk + begin * k_width(), k_width(),
                       true);
    }
  }

  // Adds the parts in order and writes. The scale is already in the queries that made dk.
  void finish_keys(std::int64_t head, const AttentionComponent& c) const {
    with_keys(c, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const auto sum = gradients(0, head, row);
        for (std::int64_t p = 1; p < parts_; ++p) {
          const auto other = gradients(p, head, row);
          for (std::int64_t i = 0; i < k_width(); ++i) sum.dk[i] += other.dk[i];
          for (std::int64_t i = 0; i < v_width(); ++i) sum.dv[i] += other.dv[i];
        }
        write_row<T>(op_.dk, row * kv_heads() + head, dim(), A(1), sum.dk);
        write_row<T>(op_.dv, row * kv_heads() + head, value_dim(), A(1), sum.dv);
      }
    });
  }

  const AttentionBackward& op_;
  const AttentionPlan plan_;
  const std::vector<AttentionComponent> components_;
  std::int64_t parts_;
  std::int64_t slots_;
  A* packed_k_ = nullptr;    // [Hk, Tk, hd rounded up]
  A* packed_v_ = nullptr;    // [Hk, Tk, vd rounded up]
  std::vector<A*> dk_, dv_;  // per part, shaped like the packed rows
  A* slots_begin_ = nullptr;
};

}  // namespace

void execute(const AttentionBackward& op, const CpuContext& ctx) {
  with_float(op.q.dtype(), [&](auto t) { Backward<decltype(t)>(op, ctx).run(); });
}

}  // namespace fivefold::cpu
