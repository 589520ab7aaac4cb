// Reads and writes adapter_config.json as peft does.
#include <reprise/model/lora.h>

#include "model/families/config_reader.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <map>
#include <utility>

namespace reprise {

namespace {

// Larger than the width of any layer; keeps products of sizes within 64 bits.
constexpr int64_t kLargestRank = int64_t{1} << 20;
constexpr double kLargestAlpha = 1e9;
constexpr uint64_t kLargestLayer = uint64_t{1} << 20;
// 2^53: a double represents integers up to it exactly.
constexpr double kLargestExactInteger = 9007199254740992.0;

std::vector<std::string> text_list(ConfigReader& fields, const char* name) {
  const Json* field = fields.find({name});
  if (field == nullptr) {
    return {};
  }
  std::vector<std::string> texts;
  if (field->is_string()) {
    texts.push_back(field->get<std::string>());
    return texts;
  }
  if (!field->is_array()) {
    fields.refuse(name, "an array of strings", *field);
  }
  texts.reserve(field->size());
  for (const auto& item : *field) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
      fields.refuse(name, "an array of strings that are not empty", item);
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

LoraConfig::Targets read_targets(ConfigReader& fields) {
  const Json* field = fields.find({"target_modules"});
  TORCH_CHECK(field != nullptr,
              "[lora] ",
              fields.source(),
              ": target_modules is missing: expected names of modules, a regular expression or "
              "\"all-linear\".");
  if (!field->is_string()) {
    return text_list(fields, "target_modules");
  }
  auto text = field->get<std::string>();
  if (text == "all-linear") {
    return LoraConfig::AllLinear{};
  }
  return text;
}

std::optional<LoraConfig::Names> read_excluded(ConfigReader& fields) {
  const Json* field = fields.find({"exclude_modules"});
  if (field != nullptr && field->is_string()) {
    auto expression = field->get<std::string>();
    return expression.empty() ? std::nullopt : std::optional<LoraConfig::Names>(expression);
  }
  auto names = text_list(fields, "exclude_modules");
  return names.empty() ? std::nullopt : std::optional<LoraConfig::Names>(std::move(names));
}

std::vector<int64_t> read_layers(ConfigReader& fields) {
  const Json* field = fields.find({"layers_to_transform"});
  if (field == nullptr) {
    return {};
  }
  std::vector<int64_t> layers;
  for (const auto& item : field->is_array() ? *field : Json::array({*field})) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > kLargestLayer) {
      fields.refuse("layers_to_transform", "numbers of layers", item);
    }
    layers.push_back(item.get<int64_t>());
  }
  return layers;
}

// {"<expression>": number}
const Json& pattern_object(ConfigReader& fields, const char* name) {
  static const Json none = Json::object();
  const Json* field = fields.find({name});
  if (field == nullptr) {
    return none;
  }
  if (!field->is_object()) {
    fields.refuse(name, "an object of numbers", *field);
  }
  for (const auto& item : *field) {
    if (!item.is_number()) {
      fields.refuse(name, "an object of numbers", item);
    }
  }
  return *field;
}

LoraConfig::Patterns<int64_t> read_rank_pattern(ConfigReader& fields) {
  LoraConfig::Patterns<int64_t> pattern;
  for (const auto& [expression, rank] : pattern_object(fields, "rank_pattern").items()) {
    if (!rank.is_number_integer() || rank < 1 || rank > kLargestRank) {
      fields.refuse("rank_pattern", "positive integers", rank);
    }
    pattern.emplace_back(expression, rank.get<int64_t>());
  }
  return pattern;
}

LoraConfig::Patterns<double> read_alpha_pattern(ConfigReader& fields) {
  LoraConfig::Patterns<double> pattern;
  for (const auto& [expression, alpha] : pattern_object(fields, "alpha_pattern").items()) {
    if (!(std::abs(alpha.get<double>()) <= kLargestAlpha)) {
      fields.refuse("alpha_pattern", c10::str("numbers up to ", kLargestAlpha), alpha);
    }
    pattern.emplace_back(expression, alpha.get<double>());
  }
  return pattern;
}

// An adapter with another one fits a changed base model only, unless it was converted.
LoraInit read_initialization(ConfigReader& fields) {
  const Json* field = fields.find({"init_lora_weights"});
  if (field == nullptr || field->is_boolean()) {
    return {};
  }
  if (*field != "gaussian" && *field != "orthogonal") {
    fields.refuse("init_lora_weights",
                  "true, false, \"gaussian\" or \"orthogonal\" (one that is subtracted from its "
                  "base model must be saved with path_initial_model_for_weight_conversion)",
                  *field);
  }
  return LoraInit::parse(field->get<std::string>());
}

// Other fields may be present, since peft writes every field it knows, but they must be unused.
void refuse_what_is_in_use(const ConfigReader& fields, const Json& json) {
  for (const auto& name : fields.unknown_fields()) {
    const Json& value = json.at(name);
    const bool is_neutral = value == false || (value.is_structured() && value.empty());
    if (!is_neutral) {
      fields.refuse(name, "no such field, or null or false, as it is not supported", value);
    }
  }
}

Json whole_or_real(double value) {
  if (value == std::floor(value) && std::abs(value) <= kLargestExactInteger) {
    return static_cast<int64_t>(value);
  }
  return value;
}

template <class List>
Json null_if_empty(const List& list) {
  return list.empty() ? Json() : Json(list);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json to_json_targets(const LoraConfig::Targets& targets) {
  if (const auto* names = std::get_if<std::vector<std::string>>(&targets)) {
    return *names;
  }
  const auto* expression = std::get_if<std::string>(&targets);
  return expression != nullptr ? Json(*expression) : Json("all-linear");
}

}  // namespace

LoraConfig LoraConfig::from_json(const Json& json, const std::string& source) {
  ConfigReader fields(json, source);
  const std::string type = fields.text_or({"peft_type"}, "");
  if (type != "LORA") {
    fields.refuse("peft_type", "LORA", type);
  }
  LoraConfig config;
  config.rank = fields.size_or({"r"}, config.rank);
  constexpr auto kFrom = ConfigReader::Least::Included;
  config.alpha = fields.number_in("lora_alpha", config.alpha, kFrom, -kLargestAlpha, kLargestAlpha);
  config.dropout = fields.number_in("lora_dropout", config.dropout, kFrom, 0, 1);
  config.use_rslora = fields.flag_or("use_rslora", false);
  config.use_dora = fields.flag_or("use_dora", false);
  config.targets = read_targets(fields);
  config.excluded = read_excluded(fields);
  config.layers = read_layers(fields);
  config.layers_pattern = text_list(fields, "layers_pattern");
  config.rank_pattern = read_rank_pattern(fields);
  config.alpha_pattern = read_alpha_pattern(fields);
  config.modules_to_save = text_list(fields, "modules_to_save");
  config.fan_in_fan_out = fields.flag_or("fan_in_fan_out", false);
  config.task_type = fields.text_or({"task_type"}, "");
  config.base_model = fields.text_or({"base_model_name_or_path"}, "");
  config.source = json;
  fields.require("bias", "none");
  config.init = read_initialization(fields);
  // Notes, and settings of features that are switched off.
  fields.ignore({"auto_mapping",
                 "inference_mode",
                 "megatron_core",
                 "peft_version",
                 "qalora_group_size",
                 "revision"});
  refuse_what_is_in_use(fields, json);
  return config;
}

LoraConfig LoraConfig::read(const std::filesystem::path& folder) {
  const auto path = folder / "adapter_config.json";
  return from_json(read_json(path), path.string());
}

Json LoraConfig::to_json() const {
  // Only fields that peft has had for a long time: an old version rejects unknown ones.
  std::map<std::string, Json> fields = {{"auto_mapping", nullptr},
                                        {"bias", "none"},
                                        {"init_lora_weights", true},
                                        {"revision", nullptr}};
  if (source.is_object()) {
    for (const auto& [name, value] : source.items()) {
      fields[name] = value;
    }
  }
  fields["alpha_pattern"] = Json::object();
  for (const auto& [expression, own] : alpha_pattern) {
    fields["alpha_pattern"][expression] = whole_or_real(own);
  }
  fields["rank_pattern"] = Json::object();
  for (const auto& [expression, own] : rank_pattern) {
    fields["rank_pattern"][expression] = own;
  }
  if (excluded) {
    fields["exclude_modules"] =
        std::visit([](const auto& names) { return Json(names); }, *excluded);
  }
  fields["base_model_name_or_path"] = text_or_null(base_model);
  fields["fan_in_fan_out"] = fan_in_fan_out.value_or(false);
  fields["inference_mode"] = true;
  fields["layers_pattern"] = null_if_empty(layers_pattern);
  fields["layers_to_transform"] = null_if_empty(layers);
  fields["lora_alpha"] = whole_or_real(alpha);
  fields["lora_dropout"] = dropout;
  fields["modules_to_save"] = null_if_empty(modules_to_save);
  fields["peft_type"] = "LORA";
  fields["r"] = rank;
  fields["target_modules"] = to_json_targets(targets);
  fields["task_type"] = text_or_null(task_type);
  fields["use_rslora"] = use_rslora;
  if (use_dora) {
    fields["use_dora"] = true;
  }
  if (init.kind != LoraInit::Kind::Uniform) {
    fields["init_lora_weights"] = init.name();
  }
  return Json(fields);
}

double LoraConfig::scale_of(int64_t own_rank, double own_alpha) const {
  const auto width = static_cast<double>(own_rank);
  return own_alpha / (use_rslora ? std::sqrt(width) : width);
}

}  // namespace reprise
