// The one table of configuration keys: section, key, help, and how the value is read into and written from a
// Config. Help texts, the configuration file and the command line all come from it.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config.h"

namespace fivefold {

struct Option {
  std::string section, key;
  std::string help;
  std::string placeholder;           // "N"
  std::string expects;               // "an integer of at least 1"
  std::vector<std::string> allowed;  // the only values, where there are only a few
  // Returns false and leaves the Config alone where the text is not a value.
  std::function<bool(Config&, std::string_view)> set;
  std::function<std::string(const Config&)> get;

  std::string name() const { return section + "." + key; }
};

struct Section {
  std::string name, help;
  std::vector<Option> options;
};

// All sections in the order in which they are printed.
const std::vector<Section>& option_table();
// Null where there is no such key ("train.micro_batch").
const Option* find_option(std::string_view name);
// "train.micro_batch" and so on, in order.
std::vector<std::string> option_names();

// Keys of [model] that bring a whole shape: they hold no value in a Config.
bool is_shape_source(std::string_view name);  // model.preset, model.from_hf

}  // namespace fivefold
