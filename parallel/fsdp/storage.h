// Forms in which a rank stores what training changes.
#pragma once
#include <cstdint>

namespace fivefold {

// What keeps the digits that a compute weight lacks.
enum class MasterForm : std::uint8_t {
  whole,      // a master in the accumulate dtype; the compute weight itself where it has that dtype
  remainder,  // 16 bits more for each bf16 weight: together the same f32 (core/split_f32.h)
  none        // a bf16 weight is all there is
};

// How state that training keeps is stored: in the accumulate dtype unless it says otherwise. bf16 gradients
// are accumulated and reduced in bf16; those to which more than matrix products add (vectors, embedding
// tables) stay in the accumulate dtype.
struct StateStorage {
  MasterForm master = MasterForm::whole;
  bool bf16_moments = false, bf16_gradients = false;
};

}  // namespace fivefold
