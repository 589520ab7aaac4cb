// Loads a Hugging Face folder: config.json, then every tensor, which is copied into its parameter
// or mapped as the parameter itself.
#include <reprise/model/pretrained.h>

#include "model/checkpoint_names.h"
#include "model/families/architecture.h"
#include "model/families/text_part.h"
#include "model/quantization/load_quantized.h"
#include "model/replace_parameters.h"

#include <reprise/io/file_format.h>
#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

namespace reprise {

namespace {

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > kShown ? text + " and " + std::to_string(names.size() - kShown) + " more"
                               : text;
}

// Copies or maps tensor by tensor, and reports what does not fit.
class Loading {
 public:
  Loading(const std::filesystem::path& folder, const LoadOptions& options)
      : folder_(folder),
        options_(options),
        config_(ModelConfig::read(folder, options.part)),
        architecture_(architecture_of(config_)),
        checkpoint_(folder),
        names_(checkpoint_names(checkpoint_, architecture_)) {
    warnings_ = config_.warnings;
    choose_part();
    TORCH_CHECK(!options.mapped || (!options.dtype && options.device.is_cpu()),
                "[load] mapped parameters are in main memory and as they are stored: give neither "
                "dtype nor device.");
    TORCH_CHECK(!options.quantization || !config_.quantization,
                "[load] ",
                folder.string(),
                ": is quantised already (",
                config_.quantization ? config_.quantization->describe() : "",
                "): load it as it is.");
    TORCH_CHECK(
        !options.mapped || !is_quantized(),
        "[load] ",
        folder.string(),
        ": fsdp cannot shard a quantised model: every process holds it as a whole, under ddp "
        "or zero2.");
  }

  LoadedModel run() {
    choose_labels();
    check_sizes();
    resolve_tied_head();
    const auto dtype = options_.dtype.value_or(stored_dtype());
    if (options_.mapped) {
      config_.dtype = dtype;  // converted when the model is sharded
    }
    // Mapped tensors replace meta parameters, which never had memory; so do those of a quantised
    // model, whose largest weights are no parameters.
    const auto device = starts_on_meta() ? at::Device(at::kMeta) : options_.device;
    model_ =
        std::make_shared<Model>(config_, options_.head, at::TensorOptions(dtype).device(device));
    if (is_quantized()) {
      load_quantized(dtype);
    }
    fill_parameters();
    warn_of_conversions();
    check_leftovers();
    return {model_, warnings_};
  }

 private:
  void choose_part() {
    if (options_.part == ModelPart::Whole || !text_part(read_json(folder_ / "config.json"))) {
      return;
    }
    std::set<std::string> others;
    names_ = text_names(checkpoint_, architecture_, others);
    warnings_.push_back(folder_.string() +
                        ": the text part alone; left: " + listed({others.begin(), others.end()}));
  }

  bool is_quantized() const { return options_.quantization || config_.quantization; }
  bool starts_on_meta() const { return options_.mapped || is_quantized(); }

  void load_quantized(at::ScalarType dtype) {
    NamedStore store(checkpoint_, names_);
    const bool is_stored = config_.quantization.has_value();
    load_quantized_layers(*model_,
                          store,
                          {.config = is_stored ? *config_.quantization : *options_.quantization,
                           .is_stored = is_stored,
                           .dtype = dtype,
                           .device = options_.device});
  }

  // What takes the place of a parameter on the meta device.
  at::Tensor replacement(const std::string& stored, const at::Tensor& parameter) const {
    if (options_.mapped) {
      return checkpoint_.view(stored);
    }
    auto tensor = at::empty_like(parameter, parameter.options().device(options_.device));
    checkpoint_.copy_to(stored, tensor);
    return tensor;
  }

  bool has_head(HeadKind kind) const {
    const auto& path = kind == HeadKind::TokenClasses ? architecture_.token_head
                       : kind == HeadKind::CausalLm   ? architecture_.lm_head
                                                      : architecture_.sequence_head;
    return names_.contains(path + ".weight");
  }

  // A new head has the requested width; an existing one the width in config.json.
  void choose_labels() {
    if (options_.head == HeadKind::CausalLm) {
      return;
    }
    const bool is_there = has_head(options_.head);
    TORCH_CHECK(!is_there || !options_.labels || *options_.labels == config_.labels,
                "[load] ",
                folder_.string(),
                ": the head has ",
                config_.labels,
                " labels, but the options ask for ",
                options_.labels.value_or(0));
    if (!is_there) {
      config_.labels =
          options_.labels.value_or(options_.head == HeadKind::Score ? 1 : config_.labels);
    }
  }

  const TensorInfo* find(const std::string& parameter) const {
    const auto name = names_.find(parameter);
    return name == names_.end() ? nullptr : checkpoint_.find(name->second);
  }

  // Called before anything is allocated by the sizes in config.json.
  void check_sizes() const {
    const std::string last = architecture_.blocks + "." + std::to_string(config_.layers - 1) + ".";
    const auto first_of_last = names_.lower_bound(last);
    TORCH_CHECK(first_of_last != names_.end() && first_of_last->first.starts_with(last),
                "[load] ",
                folder_.string(),
                ": config.json says ",
                config_.layers,
                " layers, but there is no tensor ",
                last,
                "*");
    if (const TensorInfo* info = find(architecture_.embedding + ".weight")) {
      const std::vector<int64_t> expected = {config_.vocabulary, config_.outer_width()};
      check_shape(*info, expected);
    }
  }

  // A checkpoint may contain a head although config.json ties it to the embedding. As in
  // transformers, a head that differs from the embedding is not tied, and a head without an
  // embedding is the embedding.
  void resolve_tied_head() {
    const std::string embedding = architecture_.embedding + ".weight";
    const std::string head = architecture_.lm_head + ".weight";
    if (!config_.tied_head || !names_.contains(head)) {
      return;
    }
    if (!names_.contains(embedding)) {
      auto only = names_.extract(head);
      only.key() = embedding;
      names_.insert(std::move(only));
      return;
    }
    const auto a = checkpoint_.view(names_.at(embedding)), b = checkpoint_.view(names_.at(head));
    if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type() || !at::equal(a, b)) {
      config_.tied_head = false;
      config_.source["tie_word_embeddings"] = false;
      warnings_.push_back(folder_.string() + ": config.json says tie_word_embeddings, but " +
                          names_.at(head) + " is another tensor: the head is not tied.");
    }
  }

  at::ScalarType stored_dtype() const {
    if (config_.dtype) {
      return *config_.dtype;
    }
    const TensorInfo* info = find(architecture_.embedding + ".weight");
    return info != nullptr && at::isFloatingType(info->dtype) ? info->dtype : at::kFloat;
  }

  void fill_parameters() {
    const at::NoGradGuard no_grad;
    std::map<std::string, at::Tensor> views;
    std::vector<std::string> missing;
    for (const auto& item : model_->named_parameters()) {
      const auto name = names_.find(item.key());
      if (name == names_.end()) {
        missing.push_back(item.key());
        continue;
      }
      check(*checkpoint_.find(name->second), item.value());
      if (starts_on_meta()) {
        views.emplace(item.key(), replacement(name->second, item.value()));
      } else {
        checkpoint_.copy_to(name->second, item.value());
        note_conversion(*checkpoint_.find(name->second), item.value());
      }
      names_.erase(name);
    }
    if (starts_on_meta()) {
      replace_parameters(*model_, views);
    }
    make_missing(missing);
  }

  void note_conversion(const TensorInfo& info, const at::Tensor& parameter) {
    if (info.dtype == parameter.scalar_type()) {
      return;
    }
    converted_.insert(info.dtype);
    if (parameter.scalar_type() == at::kHalf && !at::isfinite(parameter).all().item<bool>()) {
      overflowed_.push_back(info.name);
    }
  }

  // What a type cannot hold, and a file of another type than config.json says.
  void warn_of_conversions() {
    const auto warn = [&](const std::string& text) {
      warnings_.push_back(folder_.string() + ": " + text);
    };
    if (converted_.empty()) {
      return;
    }
    const std::string stored = dtype_name(*converted_.begin()), here = dtype_name(model_->dtype());
    if (!options_.dtype) {
      warn("config.json says " + here + ", but tensors are stored as " + stored +
           "; they are converted.");
    }
    if (model_->dtype() == at::kBFloat16 && converted_.contains(at::kHalf)) {
      warn(
          "stored as float16 and rounded to bfloat16, which has three bits less; float32 holds "
          "float16 exactly.");
    }
    if (!overflowed_.empty()) {
      warn("values beyond float16's range of 65504 became infinite in " + listed(overflowed_) +
           "; bfloat16 and float32 hold them.");
    }
  }

  void make_missing(const std::vector<std::string>& missing) {
    if (missing.empty()) {
      return;
    }
    // A whole head may be newly initialised; a part of one means that the file does not fit.
    const std::string head = model_->head_path() + ".";
    const auto in_head = [&](const auto& name) { return name.starts_with(head); };
    const bool is_whole_head = std::all_of(missing.begin(), missing.end(), in_head) &&
                               missing.size() == parameters_under(head);
    TORCH_CHECK(is_whole_head && options_.head != HeadKind::CausalLm,
                "[load] ",
                folder_.string(),
                ": tensors are missing: ",
                listed(missing));
    if (starts_on_meta()) {
      std::map<std::string, at::Tensor> fresh;
      for (const auto& name : missing) {
        const at::Tensor planned = model_->named_parameters()[name];
        fresh.emplace(name, at::empty_like(planned, planned.options().device(options_.device)));
      }
      replace_parameters(*model_, fresh);
    }
    model_->initialize_head(options_.seed);
    warnings_.push_back(folder_.string() + ": has no " + listed(missing) +
                        "; the head starts from random values.");
  }

  size_t parameters_under(const std::string& prefix) const {
    size_t count = 0;
    for (const auto& item : model_->named_parameters()) {
      count += item.key().starts_with(prefix) ? 1 : 0;
    }
    return count;
  }

  void check_shape(const TensorInfo& info, c10::IntArrayRef expected) const {
    TORCH_CHECK(info.shape == expected,
                "[load] ",
                folder_.string(),
                ": tensor ",
                info.name,
                ": expected the shape ",
                expected,
                " (by config.json), found ",
                c10::IntArrayRef(info.shape));
  }

  void check(const TensorInfo& info, const at::Tensor& parameter) const {
    check_shape(info, parameter.sizes());
    TORCH_CHECK(info.dtype == at::kFloat || info.dtype == at::kBFloat16 ||
                    info.dtype == at::kHalf || info.dtype == at::kDouble,
                "[load] ",
                folder_.string(),
                ": tensor ",
                info.name,
                ": expected float32, bfloat16 or float16, found ",
                c10::toString(info.dtype));
  }

  // Tensors that are left over may only be a head of another kind.
  void check_leftovers() {
    std::vector<std::string> unexpected, dropped;
    for (const auto& [name, stored] : names_) {
      const std::string path = name.substr(0, name.rfind('.'));
      if (name == architecture_.lm_head + ".weight") {
        continue;  // tied, or the model has another kind of head
      }
      const bool is_other_head =
          path != model_->head_path() &&
          (path == architecture_.sequence_head || path == architecture_.token_head);
      (is_other_head ? dropped : unexpected).push_back(stored);
    }
    TORCH_CHECK(unexpected.empty(),
                "[load] ",
                folder_.string(),
                ": tensors that a ",
                config_.family,
                " model of this config does not have: ",
                listed(unexpected));
    if (!dropped.empty()) {
      warnings_.push_back(folder_.string() + ": " + listed(dropped) + " is not used.");
    }
  }

  std::filesystem::path folder_;
  LoadOptions options_;
  ModelConfig config_;
  Architecture architecture_;
  TensorCheckpoint checkpoint_;
  std::map<std::string, std::string> names_;
  std::vector<std::string> warnings_;
  std::set<at::ScalarType> converted_;   // types of tensors that are stored otherwise
  std::vector<std::string> overflowed_;  // names of tensors
  std::shared_ptr<Model> model_;
};

}  // namespace

std::map<std::string, std::string> text_tensors(const TensorCheckpoint& checkpoint,
                                                const ModelConfig& config) {
  std::set<std::string> others;
  return text_names(checkpoint, architecture_of(config), others);
}

LoadedModel load_model(const std::filesystem::path& folder, const LoadOptions& options) {
  refuse_foreign_model(folder);
  TORCH_CHECK(std::filesystem::is_directory(folder),
              "[load] ",
              folder.string(),
              ": no such folder. A model is a folder with config.json "
              "and safetensors files.");
  return Loading(folder, options).run();
}

}  // namespace reprise
