#include <reprise/model/quantization_config.h>

#include "model/families/config_reader.h"

#include <reprise/io/dtype.h>

#include <c10/util/Exception.h>

namespace reprise {

namespace {

QuantFormat format_of(ConfigReader& fields) {
  const bool has_4bit = fields.flag_or("load_in_4bit", false);
  const bool has_8bit = fields.flag_or("load_in_8bit", false);
  if (has_4bit == has_8bit) {
    fields.refuse("load_in_4bit", "one of load_in_4bit and load_in_8bit to be true", has_4bit);
  }
  const std::string type = fields.text_or({"bnb_4bit_quant_type"}, "fp4");
  if (type != "nf4" && type != "fp4") {
    fields.refuse("bnb_4bit_quant_type", "nf4 or fp4", type);
  }
  return has_8bit ? QuantFormat::Int8 : type == "nf4" ? QuantFormat::Nf4 : QuantFormat::Fp4;
}

std::vector<std::string> read_skips(ConfigReader& fields) {
  const Json* names = fields.find({"llm_int8_skip_modules"});
  std::vector<std::string> skips;
  if (names == nullptr) {
    return skips;
  }
  if (!names->is_array()) {
    fields.refuse("llm_int8_skip_modules", "an array of names", *names);
  }
  for (const auto& name : *names) {
    if (!name.is_string()) {
      fields.refuse("llm_int8_skip_modules", "an array of names", *names);
    }
    skips.push_back(name);
  }
  return skips;
}

}  // namespace

QuantizationConfig QuantizationConfig::from_json(const Json& json, const std::string& source) {
  const std::string place = source + ", quantization_config";
  TORCH_CHECK(json.is_object(), "[config] ", place, ": expected an object, found ", kind_of(json));
  ConfigReader fields(json, place);
  const std::string method = fields.text_or({"quant_method"}, "bitsandbytes");
  if (method != "bitsandbytes") {
    fields.refuse("quant_method", "bitsandbytes", method);
  }
  QuantizationConfig config;
  config.scheme.format = format_of(fields);
  const bool is_4bit = config.scheme.format != QuantFormat::Int8;
  const bool is_double = fields.flag_or("bnb_4bit_use_double_quant", false);
  config.scheme.double_quant = is_4bit && is_double;
  const std::string compute = fields.text_or({"bnb_4bit_compute_dtype"}, "float32");
  const auto type = dtype_named(compute);
  if (!type) {
    fields.refuse("bnb_4bit_compute_dtype", "float32, bfloat16 or float16", compute);
  }
  if (is_4bit) {
    config.compute_type = type;
    fields.require("bnb_4bit_quant_storage", "uint8");
  }
  config.skip_modules = read_skips(fields);
  fields.require("llm_int8_has_fp16_weight", false);
  config.source = json;
  return config;
}

Json QuantizationConfig::to_json() const {
  const bool is_int8 = scheme.format == QuantFormat::Int8;
  Json json = source.is_object() ? source : Json::object();
  json["_load_in_4bit"] = !is_int8;
  json["_load_in_8bit"] = is_int8;
  if (!is_int8) {
    json["bnb_4bit_compute_dtype"] = dtype_name(compute_type.value_or(at::kFloat));
    json["bnb_4bit_quant_storage"] = "uint8";
    json["bnb_4bit_quant_type"] = name_of(scheme.format);
    json["bnb_4bit_use_double_quant"] = scheme.double_quant;
  }
  json["llm_int8_has_fp16_weight"] = false;
  json["llm_int8_skip_modules"] = skip_modules.empty() ? Json() : Json(skip_modules);
  json["load_in_4bit"] = !is_int8;
  json["load_in_8bit"] = is_int8;
  json["quant_method"] = "bitsandbytes";
  return json;
}

std::string QuantizationConfig::describe() const {
  return std::string(name_of(scheme.format)) + (scheme.double_quant ? ", double quantisation" : "");
}

}  // namespace reprise
