// LoRA adapters, as peft reads and writes them.
//
// Adding adapters freezes the base model; what is trained from then on are the adapters' matrices
// and, whole, the modules that modules_to_save names (a reward model's score head among them
// without being asked). Adapters and checkpointing may be switched on in either order.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace reprise {

/// adapter_config.json. A module's path is its name in checkpoints, without ".weight".
struct LoraConfig {
  struct AllLinear {};  ///< every projection but the head: "all-linear"
  /// Names (a whole path, or its end: "q_proj" is every ...q_proj), or one regular expression that
  /// must match a whole path.
  using Names = std::variant<std::vector<std::string>, std::string>;
  using Targets = std::variant<AllLinear, std::vector<std::string>, std::string>;
  /// Regular expressions for the ends of paths, and what holds there; the first that matches.
  template <class Value>
  using Patterns = std::vector<std::pair<std::string, Value>>;

  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  bool use_rslora = false;                  ///< scale by alpha / sqrt(rank), not alpha / rank
  Targets targets = AllLinear{};            ///< as Names, or AllLinear
  std::optional<Names> excluded;            ///< never adapted: exclude_modules
  std::vector<int64_t> layers;              ///< only these blocks, with targets by name; empty: all
  std::vector<std::string> layers_pattern;  ///< what blocks are called, if not by their place
  Patterns<int64_t> rank_pattern;           ///< ranks that differ
  Patterns<double> alpha_pattern;           ///< alphas that differ
  /// Projections and embeddings that are trained whole; ends of paths.
  std::vector<std::string> modules_to_save;
  std::optional<bool> fan_in_fan_out;  ///< must agree with the family's weights; unset: does
  std::string task_type;   ///< CAUSAL_LM, SEQ_CLS, TOKEN_CLS; empty: by the model's head
  std::string base_model;  ///< base_model_name_or_path
  /// The adapters' own type; unset: float32, also on a bfloat16 base.
  std::optional<at::ScalarType> dtype;
  Json source;  ///< the file as it was, so that what is written again has the same fields

  /// A field that would change what is computed and is not supported is refused by name, known to
  /// peft or not.
  REPRISE_API static LoraConfig from_json(const Json& json, const std::string& source);
  REPRISE_API static LoraConfig read(const std::filesystem::path& folder);
  REPRISE_API Json to_json() const;  ///< keys sorted, as peft writes them
  double scale() const { return scale_of(rank, alpha); }
  REPRISE_API double scale_of(int64_t own_rank, double own_alpha) const;
};

/// Adds fresh adapters (A random, B zero: the model computes what it did before) and freezes the
/// rest. Throws if a name matches nothing, saying which projections there are, or if there are
/// adapters already. Returns the paths of the adapted modules.
REPRISE_API std::vector<std::string> add_lora(Model& model,
                                              const LoraConfig& config,
                                              uint64_t seed);

struct AdapterOptions {
  bool is_trainable = false;    ///< requires grad; else the model is as frozen as it was
  bool keep_reference = false;  ///< also keep a frozen copy, for AdapterUse::Reference
  std::optional<at::ScalarType> dtype = {};  ///< the adapters' own type; unset: float32
};

/// Adds adapters that peft or save_adapter wrote. Missing, unexpected or misshapen tensors are
/// refused by name; a folder that does not fit leaves the model as it was. Returns the config, for
/// save_adapter: an adapter of a language model that goes on to train a reward model gets its head
/// added.
REPRISE_API LoraConfig load_adapter(Model& model,
                                    const std::filesystem::path& folder,
                                    const AdapterOptions& options = {});

/// Writes adapter_config.json and adapter_model.safetensors. `config` is what the adapters were
/// made with; what it leaves open (task_type, the head of a reward model) is filled in. All
/// processes that the model is spread over call it, as save_model.
REPRISE_API void save_adapter(const Model& model,
                              const std::filesystem::path& folder,
                              const LoraConfig& config);

/// Adds the adapters' product to the base weights, computed in float32, and takes the adapters away
/// for good. What is frozen stays so.
REPRISE_API void merge_lora(Model& model);

/// Adapters folded into the base weights for a while, for faster generation: the destructor takes
/// the product off again, from a copy, so that the weights are to the last bit what they were.
/// Passes with adapters off, or the reference's, are what they always are. Without adapters it does
/// nothing.
class REPRISE_API MergedLora {
 public:
  explicit MergedLora(Model& model);
  ~MergedLora();
  MergedLora(const MergedLora&) = delete;
  MergedLora& operator=(const MergedLora&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

REPRISE_API bool has_lora(const Model& model);

/// Parameters that are trained, by name as checkpoints (for adapters: as peft) name them.
REPRISE_API std::vector<std::pair<std::string, at::Tensor>> trained_parameters(const Model& model);

}  // namespace reprise
