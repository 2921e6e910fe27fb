// One row a key: the value that was asked for must be one of those that work. A feature that arrives removes
// its row.
#include "launcher/supported.h"

#include <algorithm>

#include "core/error.h"
#include "launcher/option_table.h"
#include "launcher/values.h"

namespace fivefold {
namespace {

struct Limit {
  std::string_view key;
  std::vector<std::string> works;  // as the configuration writes them
};

const std::vector<Limit>& limits() {
  static const std::vector<Limit> table{
      {"model.experts", {"0"}},
      {"model.kv_rank", {"0"}},
      {"parallel.ep", {"1"}},
      {"parallel.transport", {"auto", "thread", "mpi", "nccl"}},
      {"parallel.overlap", {"true"}},
      {"parallel.moe_arena", {"0B"}},
      {"parallel.route_force", {"none"}},
      {"checkpoint.async", {"off"}},
      {"checkpoint.staging", {"1GiB"}},
      {"launch.restarts", {"3"}},
      {"launch.hash_every", {"0"}},
      {"log.tensorboard", {"false"}},
  };
  return table;
}

std::string quoted(const std::string& value) { return value.empty() ? "nothing" : value; }

}  // namespace

void check_supported(const Config& config) {
  for (const auto& limit : limits()) {
    const Option* option = find_option(limit.key);
    FF_CHECK(option != nullptr, "no key ", limit.key);
    const auto value = option->get(config);
    if (std::find(limit.works.begin(), limit.works.end(), value) != limit.works.end()) continue;
    std::vector<std::string> works;
    for (const auto& each : limit.works) works.push_back(quoted(each));
    throw UserError(str(limit.key, " = ", value,
                        " asks for a feature that this version does not have; what works is ",
                        list_of(works)));
  }
}

}  // namespace fivefold
