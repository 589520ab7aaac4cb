// Reads config.json of any family.
#include <reprise/model/config.h>

#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/nearest_family.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace reprise {

namespace {

const Family& family_of(ConfigReader& fields) {
  const std::string name = fields.text_or({"model_type"}, "");
  const Family* family = find_family(name);
  if (family == nullptr) {
    fields.refuse("model_type",
                  "one of " + supported_families(),
                  name,
                  ". " + describe_nearest_family(fields.json(), {}));
  }
  return *family;
}

std::vector<int64_t> read_eos_ids(ConfigReader& fields) {
  const Json* field = fields.find({"eos_token_id"});
  if (field == nullptr) {
    return {};
  }
  if (!field->is_array()) {
    const auto id = fields.token_id("eos_token_id");
    return id ? std::vector{*id} : std::vector<int64_t>{};
  }
  std::vector<int64_t> ids;
  for (const auto& id : *field) {
    if (!id.is_number_integer() || id < 0) {
      fields.refuse("eos_token_id", "token ids", *field);
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

// transformers does not write num_labels, but id2label with one entry per label.
int64_t read_labels(ConfigReader& fields) {
  fields.ignore({"label2id", "problem_type", "reward_mean", "reward_std"});
  const Json* names = fields.find({"id2label"});
  if (names != nullptr && names->is_object() && !names->empty()) {
    return static_cast<int64_t>(names->size());
  }
  return fields.size_or({"num_labels", "_num_labels"}, 2);
}

void read_common_fields(ConfigReader& fields, ModelConfig& config) {
  config.bos_id = fields.token_id("bos_token_id");
  config.pad_id = fields.token_id("pad_token_id");
  config.eos_ids = read_eos_ids(fields);
  config.labels = read_labels(fields);
  config.initializer_range = fields.number_in(
      "initializer_range", config.initializer_range, ConfigReader::Least::Included, 0, 100);
  if (const Json* dtype = fields.find({"dtype", "torch_dtype"})) {
    config.dtype = dtype->is_string() ? dtype_named(*dtype) : std::nullopt;
    if (!config.dtype) {
      fields.refuse("dtype or torch_dtype", "float32, bfloat16 or float16", *dtype);
    }
  }
  if (const Json* names = fields.find({"architectures"});
      names != nullptr && names->is_array() && !names->empty() && names->front().is_string()) {
    config.architecture = names->front();
  }
  fields.require("is_encoder_decoder", false);
  if (const Json* quantization = fields.find({"quantization_config"})) {
    config.quantization = QuantizationConfig::from_json(*quantization, fields.source());
  }
  fields.ignore({"transformers_version",
                 "_name_or_path",
                 "use_cache",
                 "return_dict",
                 "output_attentions",
                 "output_hidden_states",
                 "chunk_size_feed_forward",
                 "is_decoder",
                 "_attn_implementation",
                 "attn_implementation",
                 "torchscript",
                 "auto_map",
                 "tie_encoder_decoder",
                 "max_length",
                 "sep_token_id",
                 "tokenizer_class",
                 "transformers.js_config",
                 "unsloth_version",
                 "unsloth_fixed",
                 "gradient_checkpointing",
                 "head_dim"});
}

// Above the sizes of all models there are: products of them, in bytes, stay within 64 bits.
void check_parameters(const std::string& source, const ModelConfig& config) {
  constexpr double kMostParameters = 1e14;
  const auto real = [](int64_t size) { return static_cast<double>(size); };
  const double width = real(std::max(config.hidden, config.embedding_width));
  const double heads = real(config.heads + config.kv_heads) * real(config.head_dim);
  const double parameters =
      2 * width * (real(config.vocabulary) + real(config.max_positions)) +
      real(config.layers) * width * (2 * heads + 3 * real(config.intermediate));
  TORCH_CHECK(parameters <= kMostParameters,
              "[config] ",
              source,
              ": sizes of about ",
              parameters,
              " parameters; expected at most ",
              kMostParameters);
}

void check(const ConfigReader& fields, const ModelConfig& config) {
  const auto& source = fields.source();
  TORCH_CHECK(config.head_dim > 0,
              "[config] ",
              source,
              ": a width of ",
              config.hidden,
              " cannot be split into ",
              config.heads,
              " attention heads.");
  TORCH_CHECK(config.heads % config.kv_heads == 0,
              "[config] ",
              source,
              ": ",
              config.heads,
              " attention heads cannot share ",
              config.kv_heads,
              " key/value heads: the first must be a multiple of the second.");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const RopeConfig& rope = config.rope_of(layer);
    TORCH_CHECK(rope.dims % 2 == 0 && rope.dims <= config.head_dim,
                "[config] ",
                source,
                ": rotary embedding over ",
                rope.dims,
                " dimensions of a head of ",
                config.head_dim,
                ": it needs an even number of them.");
  }
  TORCH_CHECK(!config.head_bias || !config.tied_head,
              "[config] ",
              source,
              ": tie_word_embeddings: expected false, since the head of this family has a bias, "
              "found true");
  check_parameters(source, config);
  for (const auto& [name, p] :
       {std::pair{"attention", config.attention_dropout},
        {"residual", config.residual_dropout},
        {"attention residual", config.attention_residual_dropout.value_or(0)},
        {"embedding", config.embedding_dropout},
        {"classifier", config.classifier_dropout}}) {
    TORCH_CHECK(p >= 0 && p < 1,
                "[config] ",
                source,
                ": ",
                name,
                " dropout: expected a probability below 1, found ",
                p);
  }
}

}  // namespace

std::vector<FamilyReading> readings_of(const Json& json) {
  std::vector<FamilyReading> readings;
  for (const Family& family : all_families()) {
    ConfigReader fields(json, "config.json");
    fields.ignore({"model_type"});
    FamilyReading reading{family.model_type, family.architecture(), {}, {}};
    try {
      ModelConfig config;
      config.family = family.model_type;
      family.read(fields, config);
      read_common_fields(fields, config);
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      constexpr std::string_view kWhere = "[config] config.json: ";
      reading.refusal = text.starts_with(kWhere) ? text.substr(kWhere.size()) : text;
    }
    reading.unread = fields.unknown_fields();
    readings.push_back(std::move(reading));
  }
  return readings;
}

ModelConfig ModelConfig::from_json(const Json& json, const std::string& source) {
  ConfigReader fields(json, source);
  const Family& family = family_of(fields);
  ModelConfig config;
  config.family = family.model_type;
  family.read(fields, config);
  read_common_fields(fields, config);
  if (config.windows.empty()) {
    config.windows.assign(static_cast<size_t>(config.layers), 0);
  }
  if (config.attention_scales.empty()) {
    config.attention_scales.assign(static_cast<size_t>(config.layers),
                                   1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  }
  check(fields, config);
  config.source = json;
  for (const auto& name : fields.unknown_fields()) {
    config.warnings.push_back(
        c10::str(source, ": the field \"", name, "\" is not known and has no effect."));
  }
  return config;
}

}  // namespace reprise
