// Small models of four families and a training step for them, for benchmarks of memory budgets on
// the CPU.
//
// Activation bytes are measured with the public interface: a step that starts with all gradients
// allocated adds to them and leaves nothing else behind, so what it allocates are activations.
#pragma once

#include <reprise/io/json.h>
#include <reprise/loss/head.h>
#include <reprise/loss/next_token.h>
#include <reprise/memory.h>
#include <reprise/model/lora.h>
#include <reprise/model/model.h>
#include <reprise/plan.h>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace budgets {

struct Size {
  int64_t hidden, intermediate, layers, rows, length;
};

constexpr int64_t kVocabulary = 512, kHeads = 4;

inline reprise::ModelConfig config_of(const std::string& family, const Size& size) {
  reprise::Json json = {{"model_type", family}, {"vocab_size", kVocabulary}};
  if (family == "gpt2") {
    json.update({{"n_embd", size.hidden},
                 {"n_inner", size.intermediate},
                 {"n_layer", size.layers},
                 {"n_head", kHeads},
                 {"n_positions", size.length},
                 {"activation_function", "gelu_new"},
                 {"attn_pdrop", 0.0},
                 {"embd_pdrop", 0.0},
                 {"resid_pdrop", 0.0}});
  } else {
    json.update({{"hidden_size", size.hidden},
                 {"intermediate_size", size.intermediate},
                 {"num_hidden_layers", size.layers},
                 {"num_attention_heads", kHeads},
                 {"max_position_embeddings", size.length}});
    json.update(family == "gpt_neox"
                    ? reprise::Json{{"hidden_act", "gelu"}, {"rotary_pct", 0.25}}
                    : reprise::Json{{"num_key_value_heads", 2}, {"rms_norm_eps", 1e-5}});
  }
  return reprise::ModelConfig::from_json(json, family);
}

/// Forward and backward of a model. By default every block is checkpointed.
class Step {
 public:
  Step(const std::string& family, bool has_lora, const Size& size)
      : model(std::make_shared<reprise::Model>(
            config_of(family, size), reprise::HeadKind::CausalLm, at::TensorOptions(at::kFloat))) {
    model->initialize(/*seed=*/0);
    if (has_lora) {
      reprise::LoraConfig config;
      config.rank = 8;
      reprise::add_lora(*model, config, /*seed=*/0);
    }
    model->train();
    model->enable_checkpointing();
    torch::manual_seed(0);
    set_batch(torch::randint(kVocabulary, {size.rows, size.length}, at::kLong));
  }

  void set_batch(const at::Tensor& ids) {
    input_.input_ids = ids;
    targets_ = at::constant_pad_nd(ids.slice(1, 1), {0, 1}, reprise::kIgnoredLabel);
  }

  /// Adds to existing gradients.
  void run() {
    const auto mean = mean_loss();
    mean.backward();
    loss = mean.detach();
  }

  void run(const reprise::MemoryPlan& plan) {
    const reprise::PlanGuard use(plan);
    run();
    use.finish();
  }

  /// Peak activation bytes of one `work` (a run), given the gradients of an earlier run. Frees the
  /// gradients.
  template <typename Work>
  int64_t activation_bytes(const Work& work) {
    const reprise::PeakTracker tracker(at::kCPU);
    work();
    const int64_t bytes = tracker.extra();
    model->zero_grad(/*set_to_none=*/true);
    return bytes;
  }

  /// Copies of the loss and of all gradients.
  std::vector<at::Tensor> results() const {
    std::vector<at::Tensor> values{loss.clone()};
    for (const auto& [name, parameter] : reprise::trained_parameters(*model)) {
      values.push_back(parameter.grad().clone());
    }
    return values;
  }

  std::shared_ptr<reprise::Model> model;
  at::Tensor loss;

 private:
  /// A separate function, so that nothing else owns the hidden states in backward.
  at::Tensor mean_loss() {
    const auto values =
        reprise::linear_cross_entropy(model->hidden_states(input_), model->linear_head(), targets_);
    return values.sum / static_cast<double>(values.tokens);
  }

  reprise::ModelInput input_;
  at::Tensor targets_;
};

inline bool are_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) {
    same = torch::equal(a[i], b[i]);
  }
  return same;
}

}  // namespace budgets
