// The models of bench_gpu: the shapes of known models with random weights, created on the device.
// gpu_peer.py has the same shapes.
#pragma once

#include <reprise/io/json.h>
#include <reprise/model/lora.h>
#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <memory>
#include <string>

namespace gpu {

struct Shape {
  int64_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocabulary;
  bool tied;
};

inline Shape shape_named(const std::string& name) {
  if (name == "1b") {  // Llama-3.2-1B
    return {16, 2048, 32, 8, 64, 8192, 128256, true};
  }
  if (name == "8b") {  // Llama-3.1-8B
    return {32, 4096, 32, 8, 128, 14336, 128256, false};
  }
  TORCH_CHECK(name == "tiny", "the shape \"", name, "\" is not known: expected 1b, 8b or tiny.");
  return {4, 64, 4, 2, 16, 128, 512, true};  // to try the harness without a GPU
}

inline reprise::ModelConfig config_of(const Shape& shape) {
  const reprise::Json json = {{"model_type", "llama"},
                              {"vocab_size", shape.vocabulary},
                              {"hidden_size", shape.hidden},
                              {"intermediate_size", shape.intermediate},
                              {"num_hidden_layers", shape.layers},
                              {"num_attention_heads", shape.heads},
                              {"num_key_value_heads", shape.kv_heads},
                              {"head_dim", shape.head_dim},
                              {"tie_word_embeddings", shape.tied},
                              {"max_position_embeddings", 131072},
                              {"rms_norm_eps", 1e-5},
                              {"rope_theta", 500000.0}};
  return reprise::ModelConfig::from_json(json, "the built-in config");
}

/// Random numbers from the device, where a billion of them take no time. Only norms have vectors.
inline void fill_randomly(reprise::Model& model) {
  const c10::NoGradGuard no_grad;
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() == 1) {
      parameter.fill_(1);
    } else {
      parameter.normal_(0, 0.02);
    }
  }
}

/// The same adapters as peft's LoraConfig(r=16, lora_alpha=32, target_modules="all-linear").
inline void adapt(reprise::Model& model) {
  reprise::LoraConfig config;
  config.rank = 16;
  config.alpha = 32;
  reprise::add_lora(model, config, /*seed=*/0);
}

inline std::shared_ptr<reprise::Model> random_model(const Shape& shape,
                                                    const at::TensorOptions& options,
                                                    bool has_lora) {
  auto model =
      std::make_shared<reprise::Model>(config_of(shape), reprise::HeadKind::CausalLm, options);
  fill_randomly(*model);
  if (has_lora) {
    adapt(*model);
  }
  model->train();
  return model;
}

}  // namespace gpu
