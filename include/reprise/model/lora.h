// LoRA adapters in the format of peft.
//
//   const reprise::LoraConfig config{.rank = 16, .alpha = 32};
//   reprise::add_lora(*model, config, /*seed=*/0);     // freezes the base model
//   …                                                  // train
//   reprise::save_adapter(*model, "adapter", config);  // a folder that peft and vLLM can load
//
// Adding adapters freezes the base model. From then on the adapters' matrices are trained, and all
// of the modules in modules_to_save; a reward model's score head is always among those. Adapters
// and checkpointing can be enabled in either order.
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

/// The first values of new adapters: init_lora_weights.
struct LoraInit {
  enum class Kind : uint8_t {
    Uniform,     ///< A random, B zero: true, peft's default
    Gaussian,    ///< A normal with the deviation 1 / rank, B zero
    Orthogonal,  ///< both random, with a product of zero
    Pissa,       ///< B A is the weight's part of the largest singular values
    Olora,       ///< B A is the beginning of the weight's QR decomposition
  };
  Kind kind = Kind::Uniform;
  /// Pissa: subspace iterations of a randomised decomposition, pissa_niter_N; unset: the exact one.
  std::optional<int64_t> iterations = {};

  /// Throws for a name that is not supported.
  REPRISE_API static LoraInit parse(const std::string& name);
  REPRISE_API std::string name() const;
  /// Whether the adapter begins with a part of the base weight, which is subtracted again: outputs
  /// do not change, and the base weight is not changed either.
  bool is_decomposition() const { return kind == Kind::Pissa || kind == Kind::Olora; }
};

/// The fields of adapter_config.json. A module's path is its name in checkpoints without ".weight".
struct LoraConfig {
  struct AllLinear {};  ///< every linear layer except the head: "all-linear"
  /// Either names, where a name is a path or its end ("q_proj" is every …q_proj), or one regular
  /// expression that must match a whole path.
  using Names = std::variant<std::vector<std::string>, std::string>;
  using Targets = std::variant<AllLinear, std::vector<std::string>, std::string>;
  /// Regular expressions for the ends of paths, each with a value; the first match counts.
  template <class Value>
  using Patterns = std::vector<std::pair<std::string, Value>>;

  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  bool use_rslora = false;                  ///< scale by alpha / sqrt(rank), not alpha / rank
  bool use_dora = false;                    ///< train the lengths of the weights' rows apart: DoRA
  LoraInit init;                            ///< of new adapters: init_lora_weights
  Targets targets = AllLinear{};            ///< as Names, or AllLinear
  std::optional<Names> excluded;            ///< never adapted: exclude_modules
  std::vector<int64_t> layers;              ///< only these blocks, with targets by name; empty: all
  std::vector<std::string> layers_pattern;  ///< name of the list of blocks in paths; empty: any
  Patterns<int64_t> rank_pattern;           ///< ranks that differ from `rank`
  Patterns<double> alpha_pattern;           ///< alphas that differ from `alpha`
  /// Linear layers and embeddings that are trained as a whole; ends of paths.
  std::vector<std::string> modules_to_save;
  std::optional<bool> fan_in_fan_out;  ///< must agree with the family's weights; unset: it does
  std::string task_type;   ///< CAUSAL_LM, SEQ_CLS or TOKEN_CLS; empty: by the model's head
  std::string base_model;  ///< base_model_name_or_path
  /// Type of the adapters' matrices; unset: float32, also on a bfloat16 base.
  std::optional<at::ScalarType> dtype;
  Json source;  ///< the original file, so that to_json() keeps its other fields

  /// Throws for a field that is not supported and would change the computation, whether peft knows
  /// it or not. `source` names the file in messages.
  REPRISE_API static LoraConfig from_json(const Json& json, const std::string& source);
  REPRISE_API static LoraConfig read(const std::filesystem::path& folder);
  REPRISE_API Json to_json() const;  ///< with sorted keys, as peft writes them
  /// The factor of the adapters' output.
  double scale() const { return scale_of(rank, alpha); }
  REPRISE_API double scale_of(int64_t own_rank, double own_alpha) const;
};

/// Adds new adapters and freezes everything else. The model's outputs do not change. Throws if a
/// name matches no module, or if there are adapters already. Returns the paths of the adapted
/// modules.
REPRISE_API std::vector<std::string> add_lora(Model& model,
                                              const LoraConfig& config,
                                              uint64_t seed);

struct AdapterOptions {
  bool is_trainable = false;    ///< train the adapters and freeze the rest; false: freeze nothing
  bool keep_reference = false;  ///< also keep a frozen copy, for AdapterUse::Reference
  std::optional<at::ScalarType> dtype = {};  ///< type of the adapters' matrices; unset: float32
};

/// Adds adapters that peft or save_adapter wrote. Throws and leaves the model unchanged if a tensor
/// is missing, unexpected or of the wrong shape. Returns the config for save_adapter(). If a
/// language model's adapter is trained on a reward model, the config includes the reward model's
/// head.
REPRISE_API LoraConfig load_adapter(Model& model,
                                    const std::filesystem::path& folder,
                                    const AdapterOptions& options = {});

/// Writes adapter_config.json and adapter_model.safetensors. `config` is the config that the
/// adapters were made with; empty fields (task_type, the head of a reward model) are filled in.
/// Adapters that began with a part of the base weight are written as plain LoRA of twice the rank,
/// which fits the untouched base model, also in peft. If the model is sharded, all of its processes
/// must call it, as with save_model().
REPRISE_API void save_adapter(const Model& model,
                              const std::filesystem::path& folder,
                              const LoraConfig& config);

/// Adds the adapters to the base weights, computed in float32, and removes them. Frozen parameters
/// stay frozen.
REPRISE_API void merge_lora(Model& model);

/// Merges the adapters into the base weights while it is alive, for faster generation. The
/// destructor restores the weights from a copy, to the last bit. Passes with AdapterUse::Off or
/// Reference are not affected. Does nothing for a model without adapters.
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

/// The parameters that require gradients, with their names in checkpoints, or in peft's files if
/// the model has adapters.
REPRISE_API std::vector<std::pair<std::string, at::Tensor>> trained_parameters(const Model& model);

}  // namespace reprise
