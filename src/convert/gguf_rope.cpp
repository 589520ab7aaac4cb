#include "convert/gguf_rope.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace reprise::convert {
namespace {

using Scaling = RopeConfig::Scaling;

/// By how much llama3's scaling divides a rotary frequency.
double frequency_divisor(double frequency, const RopeConfig& rope) {
  const double turns = static_cast<double>(rope.original_positions) * frequency / (2 * M_PI);
  if (turns > rope.high_frequency_factor) {
    return 1.0;
  }
  if (turns < rope.low_frequency_factor) {
    return rope.factor;
  }
  const double smooth = (turns - rope.low_frequency_factor) /
                        (rope.high_frequency_factor - rope.low_frequency_factor);
  return 1.0 / ((1.0 - smooth) / rope.factor + smooth);
}

std::vector<double> all_divisors(const RopeConfig& rope) {
  std::vector<double> divisors;
  for (int64_t i = 0; i < rope.dims; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(rope.dims);
    divisors.push_back(frequency_divisor(std::pow(rope.theta, -exponent), rope));
  }
  return divisors;
}

// Note [llama3 scaling in GGUF]
// A converter turns the four numbers of llama3's rope scaling into one divisor per frequency, and
// stores these as a tensor. The largest of them is the factor; the other three numbers are the same
// in every published model. So they are assumed, and every divisor is computed and compared: a file
// for which they are wrong is refused.
Json llama3_scaling(const io::GgufFile& file,
                    const io::GgufTensor& tensor,
                    int64_t dims,
                    double theta) {
  const std::string where =
      "[gguf] " + file.path().string() + ": tensor \"" + kRopeDivisors + "\": ";
  const int64_t count = dims / 2;
  TORCH_CHECK(count > 0 && tensor.shape == std::vector<int64_t>{count},
              where,
              "expected shape [",
              count,
              "], found ",
              c10::IntArrayRef(tensor.shape));
  std::vector<float> found(static_cast<size_t>(count));
  file.read(tensor, found);
  RopeConfig rope;  // with llama3's defaults
  rope.dims = dims;
  rope.theta = theta;
  rope.factor = *std::max_element(found.begin(), found.end());
  const std::vector<double> expected = all_divisors(rope);
  for (size_t i = 0; i < found.size(); ++i) {
    constexpr double kRounding = 1e-4;  // converters compute in float32
    TORCH_CHECK(std::abs(found[i] - expected[i]) <= kRounding * expected[i],
                where,
                "expected llama3's scaling, which divides frequency ",
                i,
                " by ",
                expected[i],
                ", found ",
                found[i]);
  }
  return {{"factor", rope.factor},
          {"high_freq_factor", rope.high_frequency_factor},
          {"low_freq_factor", rope.low_frequency_factor},
          {"original_max_position_embeddings", rope.original_positions},
          {"rope_type", "llama3"}};
}

double required_factor(const GgufFields& fields, const std::string& key) {
  const double factor = fields.required(fields.number(key), key);
  if (!(factor >= 1)) {
    fields.refuse(key, "a number from 1", std::to_string(factor));
  }
  return factor;
}

Json yarn_scaling(const GgufFields& fields, const std::string& prefix) {
  const std::string original = prefix + "rope.scaling.original_context_length";
  Json json = {
      {"factor", required_factor(fields, prefix + "rope.scaling.factor")},
      {"original_max_position_embeddings", fields.required(fields.integer(original), original)},
      {"rope_type", "yarn"}};
  for (const auto& [key, field] : {std::pair("rope.scaling.yarn_beta_fast", "beta_fast"),
                                   std::pair("rope.scaling.yarn_beta_slow", "beta_slow")}) {
    if (const auto number = fields.number(prefix + key)) {
      json[field] = *number;
    }
  }
  return json;
}

[[noreturn]] void refuse_scaling(const char* kind, const std::string& why) {
  TORCH_CHECK(false, "[gguf] rope_type ", kind, ": ", why);
}

void export_yarn(const RopeConfig& rope, const std::string& prefix, io::GgufValues& values) {
  // llama.cpp scales attention by this, and rounds the bounds, whatever a file says.
  const double usual = rope.factor <= 1 ? 1.0 : 0.1 * std::log(rope.factor) + 1.0;
  if (std::abs(rope.attention_factor - usual) > 1e-6 || !rope.has_whole_bounds) {
    refuse_scaling("yarn",
                   "llama.cpp has it with attention_factor by the factor, and truncate, only");
  }
  values.emplace_back(prefix + "type", "yarn");
  values.emplace_back(prefix + "factor", static_cast<float>(rope.factor));
  values.emplace_back(prefix + "original_context_length",
                      static_cast<uint32_t>(rope.original_positions));
  values.emplace_back(prefix + "yarn_beta_fast", static_cast<float>(rope.fast_rotations));
  values.emplace_back(prefix + "yarn_beta_slow", static_cast<float>(rope.slow_rotations));
}

}  // namespace

std::vector<float> rope_divisors(const ModelConfig& config) {
  if (config.rope.scaling != Scaling::Llama3) {
    return {};
  }
  const std::vector<double> divisors = all_divisors(config.rope);
  return {divisors.begin(), divisors.end()};
}

void export_rope(const ModelConfig& config,
                 const std::string& architecture,
                 io::GgufValues& values) {
  const RopeConfig& rope = config.rope;
  if (rope.dims == 0) {
    return;
  }
  values.emplace_back(architecture + ".rope.dimension_count", static_cast<uint32_t>(rope.dims));
  values.emplace_back(architecture + ".rope.freq_base", static_cast<float>(rope.theta));
  const std::string prefix = architecture + ".rope.scaling.";
  switch (rope.scaling) {
    case Scaling::None:
    case Scaling::Llama3:  // a tensor
      return;
    case Scaling::Linear:
      values.emplace_back(prefix + "type", "linear");
      values.emplace_back(prefix + "factor", static_cast<float>(rope.factor));
      return;
    case Scaling::Yarn:
      return export_yarn(rope, prefix, values);
    case Scaling::Dynamic:
      return refuse_scaling("dynamic", "GGUF has no such scaling");
    case Scaling::Proportional:
      return refuse_scaling("proportional", "is not exported");
    case Scaling::LongRope:
      return refuse_scaling("longrope", "is not exported");
  }
}

Json import_rope(const io::GgufFile& file, const std::string& prefix, int64_t dims, double theta) {
  const GgufFields fields(file);
  const std::string type_key = prefix + "rope.scaling.type";
  const std::string type = fields.string(type_key).value_or("none");
  const std::string factor_key = prefix + "rope.scaling.factor";
  if (type == "yarn") {
    return yarn_scaling(fields, prefix);
  }
  const double factor = fields.number(factor_key).value_or(1.0);
  const bool is_scaled =
      factor != 1.0 && factor != 0.0;  // llama.cpp takes a factor alone as linear
  if (type == "linear" || (type == "none" && is_scaled)) {
    return {{"factor", required_factor(fields, factor_key)}, {"rope_type", "linear"}};
  }
  if (type != "none") {
    fields.refuse(
        type_key,
        std::string("\"none\", \"linear\", \"yarn\", or llama3's scaling as the tensor ") +
            kRopeDivisors,
        "\"" + type + "\"");
  }
  const io::GgufTensor* const tensor = file.find(kRopeDivisors);
  return tensor == nullptr ? Json() : llama3_scaling(file, *tensor, dims, theta);
}

}  // namespace reprise::convert
