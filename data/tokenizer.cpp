#include "data/tokenizer.h"

#include <array>

#include "core/error.h"
#include "core/nearest.h"
#include "data/byte_tokenizer.h"

namespace fivefold {

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  const std::array<std::string, 1> known = {"byte"};
  throw UserError(
      str("unknown tokenizer '", name, "'; the nearest known one is '", nearest_name(name, known), "'"));
}

}  // namespace fivefold
