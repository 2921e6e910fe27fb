// Options of a small command: "--name VALUE", "--name=VALUE", flags, and the words between them.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fivefold {

struct ArgumentSpec {
  std::string name;   // with its dashes
  std::string value;  // what the help calls the value; empty: a flag without one
  std::string help;
};

class Arguments {
 public:
  // Throws UserError for an unknown option, naming the nearest, for a missing or unexpected value, and for an
  // option given twice. --help is always known.
  Arguments(std::span<const std::string> args, const std::vector<ArgumentSpec>& specs);

  bool has(const std::string& name) const { return values_.count(name) != 0; }
  // The value, or `otherwise` where the option was not given.
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  // Throws UserError unless the value is such a number.
  std::int64_t integer(const std::string& name, std::int64_t least,
                       std::optional<std::int64_t> otherwise = {}) const;
  double number(const std::string& name, double otherwise) const;
  // As text(); throws UserError naming the nearest unless it is one of `allowed`.
  std::string choice(const std::string& name, const std::vector<std::string>& allowed) const;
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> words_;
};

// One line an option, aligned.
std::string help_text(const std::vector<ArgumentSpec>& specs);

}  // namespace fivefold
