// Packed rows [T, q+k+v] -> q, k, v apart, with QK-norm (none, per head, or over the full width) and rotary
// positions.
#pragma once
#include "model/config.h"
#include "model/rows.h"
#include "parallel/mesh/param.h"
#include "parallel/run.h"

namespace fivefold {

struct Qkv {
  Tensor q;     // [T, Hq/tp, hd]
  Tensor k, v;  // [T, Hk/tp, hd]
};

class QkvSplit {
 public:
  struct Saved {
    Tensor packed;          // kept only where a norm needs it
    Tensor q_rstd, k_rstd;  // [T, Hq], [T, Hk] per head; [T] over the full width
    Tensor q_raw, k_raw;    // before the full-width norm
  };
  // cos and sin [context, hd/2] in the accumulate dtype, or none without rotary; q_norm and k_norm null
  // without QK-norm.
  QkvSplit(const ModelConfig& config, Param* q_norm, Param* k_norm, Tensor cos, Tensor sin)
      : config_(config), q_norm_(q_norm), k_norm_(k_norm), cos_(std::move(cos)), sin_(std::move(sin)) {}
  // q_width and kv_width: this rank's columns.
  Qkv forward(const Run& run, const Tensor& packed, std::int64_t q_width, const TokenRows& rows,
              Saved& saved) const;
  Tensor backward(const Run& run, const Qkv& d, const TokenRows& rows, Saved& saved) const;  // -> [T, q+k+v]

 private:
  SplitQkvForward split(const Run& run, const Tensor& packed, std::int64_t q_width) const;
  void full_forward(const Run& run, Qkv& qkv, const TokenRows& rows, Saved& saved) const;
  Qkv full_backward(const Run& run, const Qkv& d, const TokenRows& rows, Saved& saved) const;
  bool rotates() const { return static_cast<bool>(cos_); }
  bool per_head() const { return config_.qk_norm == QkNorm::head; }
  bool full_width() const { return config_.qk_norm == QkNorm::full; }

  ModelConfig config_;
  Param* q_norm_;
  Param* k_norm_;
  Tensor cos_, sin_;
};

}  // namespace fivefold
