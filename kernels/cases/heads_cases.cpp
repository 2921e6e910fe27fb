// Cases of the moves between rows of heads and parts.
#include "kernels/cases/shapes.h"

namespace fivefold::cases {
namespace {

struct Sizes {
  std::int64_t rows, heads, width, parts, of_part;
};
std::string to_string(const Sizes& s) {
  return str("T=", s.rows, ",H=", s.heads, ",W=", s.width, ",P=", s.parts, ",n=", s.of_part);
}

// f(element of rows, element of parts) for every element of the parts, in order of the parts.
template <class F>
void pairs(const Sizes& s, F f) {
  const auto repeats = s.parts * s.of_part / s.heads;
  std::int64_t at = 0;
  for (std::int64_t p = 0; p < s.parts; ++p)
    for (std::int64_t t = 0; t < s.rows; ++t)
      for (std::int64_t j = 0; j < s.of_part; ++j)
        for (std::int64_t c = 0; c < s.width; ++c, ++at)
          f(static_cast<std::size_t>((t * s.heads + (p * s.of_part + j) / repeats) * s.width + c),
            static_cast<std::size_t>(at));
}

// With another part the parts still hold every head equally often.
bool one_more(const Sizes& s) { return (s.parts + 1) * s.of_part % s.heads == 0; }

Case<HeadsToParts> to_parts(const Sizes& s, DType dtype) {
  Case<HeadsToParts> c(to_string(s), dtype);
  c.input("rows", &HeadsToParts::rows, {s.rows, s.heads, s.width}, dtype);
  c.output("parts", &HeadsToParts::parts, {s.parts, s.rows, s.of_part, s.width}, dtype).free_rows =
      one_more(s);
  c.formula([=](const HeadsToParts&, auto& v) {
    pairs(s, [&](std::size_t row, std::size_t part) { v["parts"][part] = v["rows"][row]; });
  });
  return c;
}

Case<PartsToHeads> to_heads(const Sizes& s, DType dtype, DType from) {
  Case<PartsToHeads> c(str(to_string(s), ",from=", from), dtype);
  c.input("parts", &PartsToHeads::parts, {s.parts, s.rows, s.of_part, s.width}, from).free_rows = one_more(s);
  c.output("rows", &PartsToHeads::rows, {s.rows, s.heads, s.width}, dtype);
  c.formula([=](const PartsToHeads&, auto& v) {
    std::fill(v["rows"].begin(), v["rows"].end(), 0);
    pairs(s, [&](std::size_t row, std::size_t part) { v["rows"][row] += v["parts"][part]; });
  });
  return c;
}

// Heads divided among the parts, one head a part, heads repeated, a repeated head across a part's edge, no
// rows.
const std::vector<Sizes>& sizes(Scale scale) {
  static const std::vector<Sizes> bench{{2048, 32, 128, 8, 4}, {2048, 8, 128, 8, 1}};
  static const std::vector<Sizes> test{{5, 4, 33, 2, 2}, {7, 8, 5, 8, 1}, {6, 2, 3, 8, 1},
                                       {9, 3, 16, 2, 3}, {3, 1, 7, 4, 1}, {0, 4, 8, 2, 2}};
  return scale == Scale::test ? test : bench;
}

}  // namespace

template <>
std::vector<Case<HeadsToParts>> cases<HeadsToParts>(Scale scale) {
  std::vector<Case<HeadsToParts>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& s : sizes(scale)) all.push_back(to_parts(s, dtype));
  return all;
}

template <>
std::vector<Case<PartsToHeads>> cases<PartsToHeads>(Scale scale) {
  std::vector<Case<PartsToHeads>> all;
  for (const auto dtype : floats_of(scale))
    for (const auto& s : sizes(scale)) {
      all.push_back(to_heads(s, dtype, dtype));
      if (accum_dtype(dtype) != dtype) all.push_back(to_heads(s, dtype, accum_dtype(dtype)));
    }
  return all;
}

}  // namespace fivefold::cases
