// A user's program on Reprise::train: reads a model's config and runs a fresh model.
#include <reprise/model/model.h>

#include <ATen/ATen.h>

#include <iostream>

int main() {
  const reprise::Json json = {{"model_type", "llama"},
                              {"vocab_size", 32},
                              {"hidden_size", 16},
                              {"intermediate_size", 32},
                              {"num_hidden_layers", 2},
                              {"num_attention_heads", 2}};
  reprise::Model model(reprise::ModelConfig::from_json(json, "config"),
                       reprise::HeadKind::CausalLm);
  model.initialize(/*seed=*/1);
  model.enable_checkpointing();
  reprise::ModelInput input;
  input.input_ids = at::arange(8).unsqueeze(0);
  const at::Tensor logits = model.forward(input);
  logits.sum().backward();
  std::cout << "logits " << logits.sizes() << ", blocks checkpointed "
            << model.checkpointed_blocks().size() << '\n';
  return 0;
}
