// What the library of f32 and bf16 products provides to Products: products_onednn.cpp or, without oneDNN,
// no_onednn.cpp.
#pragma once
#include "kernels/cpu/products.h"

namespace fivefold::cpu {

// Sizes are not zero. Runs on the calling thread only.
void multiply_f32(const ProductShape& shape, const float* a, const float* b, float* c);

class Bf16Products {
 public:
  Bf16Products();
  ~Bf16Products();
  // As Products::multiply, with c of `c_dtype` bf16 or f32; sizes are not zero. False: the library has no
  // such product on this processor, and nothing was written.
  bool multiply(const ProductShape& shape, const bf16* a, const bf16* b, void* c, DType c_dtype,
                const float* bias);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fivefold::cpu
