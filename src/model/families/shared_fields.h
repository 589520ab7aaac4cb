// Fields of config.json that many families have.
#pragma once

#include <reprise/model/config.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace reprise {

class ConfigReader;

/// What a family's class in transformers says where config.json says nothing.
struct UsualDefaults {
  int64_t kv_heads = 0;  ///< 0: as many as heads
  int64_t head_dim = 0;  ///< 0: hidden / heads
  bool tied_head = false;
  double rope_theta = 10000.0;
  double rope_fraction = 1.0;
  double epsilon = 1e-6;
};

/// Reads the sizes under transformers' usual names.
void read_usual_sizes(ConfigReader& fields,
                      ModelConfig& config,
                      const UsualDefaults& defaults = {});
/// Reads the fields that Llama and its many likes share: sizes, rotary embedding, activation,
/// epsilon and dropout.
void read_llama_shape(ConfigReader& fields,
                      ModelConfig& config,
                      const UsualDefaults& defaults = {});
/// Reads sizes, norms and dropout under GPT-2's names, and skips what its heads are told.
/// `dropout`: where config.json says nothing.
void read_gpt2_shape(ConfigReader& fields, ModelConfig& config, double dropout);
/// A required size under its usual name or an old one; if both are there, they must agree.
int64_t read_renamed_size(ConfigReader& fields, const char* old_name, const char* name);
/// attention_bias, of all four projections, and mlp_bias.
void read_biases(ConfigReader& fields, ModelConfig& config);
void read_activation(ConfigReader& fields,
                     ModelConfig& config,
                     const char* name,
                     const char* fallback);
/// Reads what a norm adds to the mean of squares, from 0 to 1.
double read_epsilon(ConfigReader& fields, const char* name, double fallback);
/// Reads a factor, above 0.
double read_factor(ConfigReader& fields, const char* name, double fallback);
/// Reads the bound of a soft cap, above 0; an explicit null: 0, which is no cap.
double read_softcap(ConfigReader& fields, const char* name, double if_missing);

/// Whether each layer attends within a window: by layer_types, or without it by `usually`.
using LayerChoice = std::function<bool(int64_t layer)>;
std::vector<bool> read_sliding_layers(ConfigReader& fields,
                                      const ModelConfig& config,
                                      const LayerChoice& usually);
/// For a pattern of `period` layers, of which the last attends to everything.
LayerChoice all_but_every(int64_t period);
/// Gives the sliding layers this window; refuses sliding layers without one (0).
void set_windows(const ConfigReader& fields,
                 ModelConfig& config,
                 const std::vector<bool>& sliding,
                 int64_t window);
/// Reads windows from layer_types; without it, layers from `first_layer` on have `window` (0:
/// none).
void read_windows(ConfigReader& fields, ModelConfig& config, int64_t window, int64_t first_layer);

struct RopeDefaults {
  double fraction = 1.0;  ///< of a head that is rotated
  double theta = 10000.0;
  bool has_query_growth = false;  ///< the family knows llama_4_scaling_beta
};
/// Reads rotary embedding, under the names of transformers 4 or 5.
void read_rope(ConfigReader& fields, ModelConfig& config, const RopeDefaults& defaults = {});

/// Rotary embedding of a family in which sliding layers have parameters of their own.
struct LayeredRopeDefaults {
  double theta = 10000.0;                     ///< of layers that attend to everything
  std::optional<double> sliding_theta = {};   ///< unset: the same
  const char* sliding_theta_field = nullptr;  ///< of transformers 4; null: there is none
};
/// Reads rope_parameters with one set for each type of layer, or the fields of transformers 4,
/// where scaling is of the layers alone that attend to everything.
void read_layered_rope(ConfigReader& fields,
                       ModelConfig& config,
                       const std::vector<bool>& sliding,
                       const LayeredRopeDefaults& defaults);

}  // namespace reprise
