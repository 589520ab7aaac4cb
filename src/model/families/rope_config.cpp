// Fields of the rotary embedding, as in transformers 4 (separate fields rope_theta, rope_scaling,
// partial_rotary_factor or rotary_pct) and as in transformers 5 (all inside rope_parameters).
#include "io/config_ranges.h"
#include "model/families/architecture.h"
#include "model/families/config_reader.h"

#include <c10/util/Exception.h>

namespace reprise {

namespace {

constexpr double kLargestFactor = 1e6;

void read_scaling(ConfigReader& outer,
                  const Json& json,
                  const std::string& field,
                  RopeConfig& rope) {
  ConfigReader scaling(json, outer.source() + ": " + field);
  for (const auto& [name, value] : json.items()) {
    if (value.is_object()) {
      scaling.refuse(name, "one set of parameters for all layers", value);
    }
  }
  rope.theta = scaling.number_or({"rope_theta"}, rope.theta);
  constexpr auto kAbove = ConfigReader::Least::Excluded;
  const std::string kind = scaling.text_or({"rope_type", "type"}, "default");
  if (kind == "default") {
    return;
  }
  if (kind == "linear") {
    rope.scaling = RopeConfig::Scaling::Linear;
    rope.factor = scaling.number_or({"factor"}, 1.0);
  } else if (kind == "llama3") {
    rope.scaling = RopeConfig::Scaling::Llama3;
    rope.factor = scaling.number_or({"factor"}, 8.0);
    rope.low_frequency_factor =
        scaling.number_in("low_freq_factor", 1.0, kAbove, 0, kLargestFactor);
    rope.high_frequency_factor =
        scaling.number_in("high_freq_factor", 4.0, kAbove, 0, kLargestFactor);
    rope.original_positions = scaling.size_or({"original_max_position_embeddings"}, 8192);
  } else {
    scaling.refuse("rope_type", "default, linear or llama3", kind);
  }
  if (!(rope.factor >= 1.0 && rope.factor <= kLargestFactor)) {
    scaling.refuse("factor", c10::str("a number from 1 to ", kLargestFactor), rope.factor);
  }
  if (rope.scaling == RopeConfig::Scaling::Llama3 &&
      !(rope.high_frequency_factor > rope.low_frequency_factor)) {
    scaling.refuse("high_freq_factor", "more than low_freq_factor", rope.high_frequency_factor);
  }
}

}  // namespace

void read_rope(ConfigReader& fields, ModelConfig& config, double default_fraction) {
  RopeConfig& rope = config.rope;
  rope.theta = fields.number_or({"rope_theta", "rotary_emb_base"}, 10000.0);
  double fraction = fields.number_or({"partial_rotary_factor", "rotary_pct"}, default_fraction);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (const Json* json = fields.find({name})) {
      if (!json->is_object()) {
        fields.refuse(name, "an object", *json);
      }
      read_scaling(fields, *json, name, rope);
      fraction =
          ConfigReader(*json, fields.source()).number_or({"partial_rotary_factor"}, fraction);
    }
  }
  if (!(rope.theta > 0 && rope.theta <= io::kLargestRopeBase)) {
    fields.refuse(
        "rope_theta", c10::str("a positive number of at most ", io::kLargestRopeBase), rope.theta);
  }
  if (!(fraction > 0 && fraction <= 1)) {
    fields.refuse("partial_rotary_factor", "a number above 0 and at most 1", fraction);
  }
  rope.dims = static_cast<int64_t>(static_cast<double>(config.head_dim) * fraction);
}

}  // namespace reprise
