// Facts travel as lines; everyone compares with rank 0, so everyone comes to the same verdict.
#include "launcher/agreement.h"

#include <array>
#include <cstdlib>

#include "core/philox.h"
#include "core/version.h"

namespace fivefold {

namespace {

constexpr std::array<const char*, 6> kVariables{
    "OMP_NUM_THREADS",  "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS",
    "DNNL_MAX_CPU_ISA", "NCCL_ALGO",         "NCCL_PROTO"};

std::string hex(std::uint64_t value) {
  std::ostringstream out;
  out << std::hex << value;
  return out.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

Facts rank_facts(const std::string& config_text) {
  Facts facts{{"program version", kVersion}, {"configuration hash", hex(hash_name(config_text))}};
  for (const auto* name : kVariables) {
    const char* value = std::getenv(name);
    facts.emplace_back(name, value ? value : "(unset)");
  }
  return facts;
}

void check_agreement(Communicator& world, const Facts& facts) {
  std::string mine;
  for (const auto& [what, value] : facts) mine += what + ": " + value + "\n";
  const auto all = world.gather_bytes(mine);
  const auto first = lines_of(all[0]);
  for (std::size_t r = 1; r < all.size(); ++r) {
    const auto other = lines_of(all[r]);
    for (std::size_t i = 0; i < std::min(first.size(), other.size()); ++i)
      if (first[i] != other[i])
        throw UserError(
            str("all ranks must agree: rank 0 has '", first[i], "', rank ", r, " has '", other[i], "'"));
  }
}

}  // namespace fivefold
