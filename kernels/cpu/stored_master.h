// The forms of StoredMaster, as a loop over elements sees them: number(i) is the master of element i, put(i,
// p) stores all that belongs to it.
#pragma once
#include "core/split_f32.h"
#include "kernels/cpu/accum.h"
#include "kernels/ops/optim.h"

namespace fivefold::cpu {

template <class T>
struct LoneMaster {
  using Number = Accum<T>;
  T* master;
  Number number(std::int64_t i) const { return static_cast<Number>(master[i]); }
  void put(std::int64_t i, Number p) const {
    if constexpr (std::is_same_v<T, bf16>)
      master[i] = split(p).upper;
    else
      master[i] = p;
  }
};

// C: of the copy, the master's or bf16.
template <class T, class C>
struct CopiedMaster {
  using Number = T;
  T* master;
  C* copy;
  T number(std::int64_t i) const { return master[i]; }
  void put(std::int64_t i, T p) const {
    master[i] = p;
    if constexpr (std::is_same_v<C, bf16>)
      copy[i] = split(static_cast<float>(p)).upper;
    else
      copy[i] = p;
  }
};

struct SplitMaster {
  using Number = float;
  bf16* copy;
  std::int16_t* remainder;
  float number(std::int64_t i) const { return join(copy[i], remainder[i]); }
  void put(std::int64_t i, float p) const {
    const auto halves = split(p);
    copy[i].bits = halves.upper.bits;  // a number: gcc vectorises no copies of structs
    remainder[i] = halves.remainder;
  }
};

// Calls f with the form that the weight is stored in.
template <class F>
void with_master(const StoredMaster& w, F&& f) {
  if (!w.master) return f(SplitMaster{w.copy.data<bf16>(), w.remainder.data<std::int16_t>()});
  with_float(w.master.dtype(), [&]<class T>(T) {
    T* const master = w.master.data<T>();
    if constexpr (!std::is_same_v<T, bf16>) {
      if (w.copy && w.copy.dtype() == DType::bf16)
        return f(CopiedMaster<T, bf16>{master, w.copy.data<bf16>()});
      if (w.copy) return f(CopiedMaster<T, T>{master, w.copy.data<T>()});
    }
    f(LoneMaster<T>{master});
  });
}

}  // namespace fivefold::cpu
