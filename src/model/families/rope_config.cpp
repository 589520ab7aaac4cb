// Fields of the rotary embedding, as in transformers 4 (separate fields rope_theta, rope_scaling,
// partial_rotary_factor or rotary_pct) and as in transformers 5 (all inside rope_parameters, which
// has one set for each type of layer where these differ).
#include "io/config_ranges.h"
#include "model/families/config_reader.h"
#include "model/families/shared_fields.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

namespace {

using Scaling = RopeConfig::Scaling;

constexpr double kLargestFactor = 1e6;
constexpr const char* kOriginalPositions = "original_max_position_embeddings";
constexpr auto kAbove = ConfigReader::Least::Excluded;
// Below that, Dynamic's exponent dims / (dims - 2) is not defined.
constexpr int64_t kLeastDynamicDims = 4;

double factor_or(ConfigReader& fields, double fallback) {
  return fields.number_in("factor", fallback, ConfigReader::Least::Included, 1, kLargestFactor);
}

// The positions that a scaled model was trained with. Phi-3 has them outside of its parameters.
int64_t original_positions(ConfigReader& outer, ConfigReader& scaling, int64_t max_positions) {
  return outer.find({kOriginalPositions}) != nullptr
             ? outer.size({kOriginalPositions})
             : scaling.size_or({kOriginalPositions}, max_positions);
}

// By how many times the rows may be longer than those of training, unless a factor says so.
double implied_factor(const RopeConfig& rope, int64_t max_positions) {
  return std::max(
      1.0, static_cast<double>(max_positions) / static_cast<double>(rope.original_positions));
}

void read_llama3(ConfigReader& scaling, RopeConfig& rope) {
  rope.factor = factor_or(scaling, 8.0);
  rope.low_frequency_factor = scaling.number_in("low_freq_factor", 1.0, kAbove, 0, kLargestFactor);
  rope.high_frequency_factor =
      scaling.number_in("high_freq_factor", 4.0, kAbove, 0, kLargestFactor);
  if (!(rope.high_frequency_factor > rope.low_frequency_factor)) {
    scaling.refuse("high_freq_factor", "more than low_freq_factor", rope.high_frequency_factor);
  }
}

// "0.1 m ln(s) + 1", by which Yarn's authors scale attention.
double attention_scale(double factor, double m) {
  return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;  // NOLINT(*-magic-numbers)
}

void read_yarn(ConfigReader& scaling, int64_t max_positions, RopeConfig& rope) {
  rope.factor = factor_or(scaling, implied_factor(rope, max_positions));
  rope.fast_rotations = scaling.number_in("beta_fast", 32.0, kAbove, 0, kLargestFactor);
  rope.slow_rotations = scaling.number_in("beta_slow", 1.0, kAbove, 0, kLargestFactor);
  if (rope.fast_rotations < rope.slow_rotations) {
    scaling.refuse("beta_fast", "at least beta_slow", rope.fast_rotations);
  }
  rope.has_whole_bounds = scaling.flag_or("truncate", true);
  constexpr auto kFrom = ConfigReader::Least::Included;
  const double m = scaling.number_in("mscale", 0, kFrom, 0, kLargestFactor);
  const double m_all = scaling.number_in("mscale_all_dim", 0, kFrom, 0, kLargestFactor);
  const double usual = m > 0 && m_all > 0
                           ? attention_scale(rope.factor, m) / attention_scale(rope.factor, m_all)
                           : attention_scale(rope.factor, 1);
  rope.attention_factor = scaling.number_in("attention_factor", usual, kAbove, 0, kLargestFactor);
}

std::vector<double> read_factors(ConfigReader& scaling, const char* name, int64_t count) {
  const Json* list = scaling.find({name});
  const std::string expected = c10::str("an array of ", count, " numbers above 0");
  if (list == nullptr || !list->is_array() || static_cast<int64_t>(list->size()) != count) {
    scaling.refuse(name, expected, list == nullptr ? Json() : *list);
  }
  std::vector<double> factors;
  for (const Json& factor : *list) {
    if (!factor.is_number() ||
        !(factor.get<double>() > 0 && factor.get<double>() <= kLargestFactor)) {
      scaling.refuse(name, expected, factor);
    }
    factors.push_back(factor.get<double>());
  }
  return factors;
}

void read_longrope(ConfigReader& scaling, int64_t max_positions, RopeConfig& rope) {
  rope.factor = factor_or(scaling, implied_factor(rope, max_positions));
  rope.short_factors = read_factors(scaling, "short_factor", rope.dims / 2);
  rope.long_factors = read_factors(scaling, "long_factor", rope.dims / 2);
  const double usual =
      rope.factor <= 1 || rope.original_positions < 2
          ? 1.0
          : std::sqrt(1 + std::log(rope.factor) /
                              std::log(static_cast<double>(rope.original_positions)));
  rope.attention_factor = scaling.number_in("attention_factor", usual, kAbove, 0, kLargestFactor);
}

void read_dynamic(ConfigReader& scaling, int64_t max_positions, RopeConfig& rope) {
  rope.factor = factor_or(scaling, 1.0);
  rope.original_positions = max_positions;
  if (rope.dims < kLeastDynamicDims) {
    scaling.refuse("rope_type",
                   c10::str("dynamic only for at least ", kLeastDynamicDims, " rotary dimensions"),
                   rope.dims);
  }
}

void read_scaling(ConfigReader& outer,
                  ConfigReader& scaling,
                  const ModelConfig& config,
                  double fraction,
                  RopeConfig& rope) {
  const std::string kind = scaling.text_or({"rope_type", "type"}, "default");
  if (kind == "default") {
    return;
  }
  rope.original_positions = original_positions(outer, scaling, config.max_positions);
  if (kind == "linear") {
    rope.scaling = Scaling::Linear;
    rope.factor = factor_or(scaling, 1.0);
  } else if (kind == "dynamic") {
    rope.scaling = Scaling::Dynamic;
    read_dynamic(scaling, config.max_positions, rope);
  } else if (kind == "llama3") {
    rope.scaling = Scaling::Llama3;
    read_llama3(scaling, rope);
  } else if (kind == "yarn") {
    rope.scaling = Scaling::Yarn;
    read_yarn(scaling, config.max_positions, rope);
  } else if (kind == "longrope" || kind == "su") {  // "su": Phi-3's first files
    rope.scaling = Scaling::LongRope;
    read_longrope(scaling, config.max_positions, rope);
  } else if (kind == "proportional") {
    rope.scaling = Scaling::Proportional;
    rope.factor = factor_or(scaling, 1.0);
    rope.dims = config.head_dim;
    rope.turning_dims =
        2 * static_cast<int64_t>(static_cast<double>(config.head_dim) * fraction / 2);
  } else {
    scaling.refuse(
        "rope_type", "default, linear, dynamic, yarn, longrope, llama3 or proportional", kind);
  }
}

// What one set of parameters begins with.
struct Basis {
  double theta, fraction;
};

// `parameters`: null, or rope_scaling, or a set in rope_parameters.
RopeConfig rope_of(ConfigReader& outer,
                   ConfigReader* parameters,
                   const ModelConfig& config,
                   Basis basis) {
  RopeConfig rope;
  if (parameters != nullptr) {
    basis.theta = parameters->number_or({"rope_theta"}, basis.theta);
    basis.fraction = parameters->number_or({"partial_rotary_factor"}, basis.fraction);
  }
  if (!(basis.theta > 0 && basis.theta <= io::kLargestRopeBase)) {
    outer.refuse(
        "rope_theta", c10::str("a positive number of at most ", io::kLargestRopeBase), basis.theta);
  }
  if (!(basis.fraction > 0 && basis.fraction <= 1)) {
    outer.refuse("partial_rotary_factor", "a number above 0 and at most 1", basis.fraction);
  }
  rope.theta = basis.theta;
  rope.dims = static_cast<int64_t>(static_cast<double>(config.head_dim) * basis.fraction);
  if (parameters != nullptr) {
    read_scaling(outer, *parameters, config, basis.fraction, rope);
  }
  return rope;
}

// An object in config.json; null: there is none.
std::optional<ConfigReader> object_in(ConfigReader& fields, const char* name) {
  const Json* json = fields.find({name});
  if (json == nullptr) {
    return std::nullopt;
  }
  if (!json->is_object()) {
    fields.refuse(name, "an object", *json);
  }
  return std::optional<ConfigReader>(std::in_place, *json, fields.source() + ": " + name);
}

void read_query_growth(ConfigReader& parameters, QueryGrowth& queries, bool is_known) {
  constexpr const char* kField = "llama_4_scaling_beta";
  const double growth = parameters.number_or({kField}, 0);
  if (growth != 0 && !is_known) {
    parameters.refuse(kField, "none for this model_type", growth);
  }
  if (growth != 0) {
    queries = {.growth = growth, .period = parameters.size({kOriginalPositions})};
  }
}

}  // namespace

void read_rope(ConfigReader& fields, ModelConfig& config, const RopeDefaults& defaults) {
  const Basis basis{fields.number_or({"rope_theta", "rotary_emb_base"}, defaults.theta),
                    fields.number_or({"partial_rotary_factor", "rotary_pct"}, defaults.fraction)};
  auto parameters = object_in(fields, "rope_parameters");
  auto scaling = object_in(fields, "rope_scaling");
  ConfigReader* chosen = parameters ? &*parameters : scaling ? &*scaling : nullptr;
  if (chosen != nullptr) {
    for (const char* type : {"full_attention", "sliding_attention"}) {
      if (const Json* set = chosen->find({type})) {
        chosen->refuse(type, "one set of parameters for all layers", *set);
      }
    }
    read_query_growth(*chosen, config.query_growth, defaults.has_query_growth);
  }
  config.rope = rope_of(fields, chosen, config, basis);
}

void read_layered_rope(ConfigReader& fields,
                       ModelConfig& config,
                       const std::vector<bool>& sliding,
                       const LayeredRopeDefaults& defaults) {
  Basis of_full{fields.number_or({"rope_theta"}, defaults.theta), 1.0};
  Basis of_sliding{defaults.sliding_theta.value_or(of_full.theta), 1.0};
  if (defaults.sliding_theta_field != nullptr) {
    of_sliding.theta = fields.number_or({defaults.sliding_theta_field}, of_sliding.theta);
  }
  auto sets = object_in(fields, "rope_parameters");
  auto full = sets ? object_in(*sets, "full_attention") : object_in(fields, "rope_scaling");
  auto local = sets ? object_in(*sets, "sliding_attention") : std::nullopt;
  if (sets) {
    for (const auto& name : sets->unknown_fields()) {
      fields.refuse("rope_parameters",
                    "one set of parameters each for full_attention and sliding_attention",
                    name);
    }
  }
  config.rope = rope_of(fields, full ? &*full : nullptr, config, of_full);
  const auto rope = rope_of(fields, local ? &*local : nullptr, config, of_sliding);
  config.ropes.clear();
  for (const bool slides : sliding) {
    config.ropes.push_back(slides ? rope : config.rope);
  }
}

}  // namespace reprise
