// Codecs of values that name things: dtypes, families, rotary scaling.
#include <algorithm>

#include "core/error.h"
#include "launcher/values.h"

namespace fivefold {
namespace {

// One field of a RopeScaling as it is written, and the types it belongs to.
struct ScalingField {
  std::string_view name;
  bool llama3, yarn;
  std::function<bool(RopeScaling&, std::string_view)> set;
  std::function<std::string(const RopeScaling&)> get;
};

template <class T>
ScalingField field(std::string_view name, bool llama3, bool yarn, T RopeScaling::*member,
                   const Codec<T>& codec) {
  return {name, llama3, yarn,
          [member, codec](RopeScaling& scaling, std::string_view text) {
            const auto value = codec.parse(text);
            if (value) scaling.*member = *value;
            return value.has_value();
          },
          [member, codec](const RopeScaling& scaling) { return codec.format(scaling.*member); }};
}

std::vector<ScalingField> scaling_fields() {
  return {field("factor", true, true, &RopeScaling::factor, positive_number()),
          field("original_context", true, true, &RopeScaling::original_context, integer(0)),
          field("low_freq_factor", true, false, &RopeScaling::low_freq_factor, positive_number()),
          field("high_freq_factor", true, false, &RopeScaling::high_freq_factor, positive_number()),
          field("beta_fast", false, true, &RopeScaling::beta_fast, positive_number()),
          field("beta_slow", false, true, &RopeScaling::beta_slow, positive_number()),
          field("attention_factor", false, true, &RopeScaling::attention_factor, number(0)),
          field("truncate", false, true, &RopeScaling::truncate, boolean())};
}

bool belongs(const ScalingField& field, RopeScalingType type) {
  switch (type) {
    case RopeScalingType::none:
      return false;
    case RopeScalingType::linear:
      return field.name == "factor";
    case RopeScalingType::llama3:
      return field.llama3;
    case RopeScalingType::yarn:
      return field.yarn;
  }
  return false;
}

bool set_field(RopeScaling& scaling, std::string_view assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos) return false;
  for (const auto& field : scaling_fields())
    if (field.name == assignment.substr(0, equals))
      return belongs(field, scaling.type) && field.set(scaling, assignment.substr(equals + 1));
  return false;
}

std::optional<RopeScaling> parse_scaling(std::string_view text) {
  const auto parts = names().parse(text);
  if (!parts || parts->empty()) return {};
  const auto type = choice<RopeScalingType>().parse(parts->front());
  if (!type) return {};
  RopeScaling scaling{.type = *type};
  for (std::size_t i = 1; i < parts->size(); ++i)
    if (!set_field(scaling, (*parts)[i])) return {};
  return scaling;
}

std::string format_scaling(const RopeScaling& scaling) {
  std::string written(name_of(scaling.type));
  for (const auto& field : scaling_fields())
    if (belongs(field, scaling.type)) written += str(",", field.name, "=", field.get(scaling));
  return written;
}

}  // namespace

Codec<RopeScaling> rope_scaling() {
  return {.parse = parse_scaling,
          .format = format_scaling,
          .expects =
              "none; linear,factor=X; "
              "llama3,factor=X,original_context=N[,low_freq_factor=X,high_freq_factor=X]; or "
              "yarn,factor=X,original_context=N[,beta_fast=X,beta_slow=X,attention_factor=X,truncate=BOOL]",
          .placeholder = "TYPE,KEY=X,...",
          .allowed = {}};
}

Codec<DType> float_dtype() {
  Codec<DType> codec;
  codec.allowed = {"f32", "bf16", "f64"};
  codec.parse = [allowed = codec.allowed](std::string_view text) -> std::optional<DType> {
    if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) return {};
    return dtype_from(text);
  };
  codec.format = [](const DType& value) { return std::string(name_of(value)); };
  return codec;
}

Codec<std::optional<DType>> storage_dtype() {
  const auto plain = float_dtype();
  Codec<std::optional<DType>> codec;
  codec.allowed = plain.allowed;
  codec.allowed.insert(codec.allowed.begin(), "auto");
  codec.parse = [plain](std::string_view text) -> std::optional<std::optional<DType>> {
    if (text == "auto") return std::optional<DType>();
    if (const auto value = plain.parse(text)) return value;
    return {};
  };
  codec.format = [plain](const std::optional<DType>& value) { return value ? plain.format(*value) : "auto"; };
  return codec;
}

Codec<std::string> one_of(const std::vector<std::string>& allowed) {
  auto codec = text();
  codec.allowed = allowed;
  codec.parse = [allowed](std::string_view text) -> std::optional<std::string> {
    if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) return {};
    return std::string(text);
  };
  return codec;
}

}  // namespace fivefold
