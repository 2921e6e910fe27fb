// Token (and learned position) embeddings: the first layer of the first stage. The table is cut by vocabulary
// rows over tp.
#pragma once
#include "model/rows.h"
#include "parallel/mesh/param.h"
#include "parallel/tensor/sequence.h"

namespace fivefold {

class Embedding {
 public:
  struct Saved {
    Tensor dy;  // [T/tp, D]
  };
  Embedding(Param* table, Param* positions)
      : table_(table), positions_(positions) {}                 // positions may be null
  Tensor forward(const Run& run, const TokenRows& rows) const;  // [T/tp, D]
  void backward_input(const Tensor& dy, Saved& saved) const { saved.dy = dy; }
  void backward_weight(const Run& run, const TokenRows& rows, Saved& saved) const;

 private:
  Param* table_;
  Param* positions_;
};

}  // namespace fivefold
