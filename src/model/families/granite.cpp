// Granite: Llama's block with factors on embeddings, scores, branches and logits.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

void read_granite(ConfigReader& fields, ModelConfig& config) {
  read_llama_shape(fields, config);
  read_biases(fields, config);
  config.embedding_scale = read_factor(fields, "embedding_multiplier", 1.0);
  config.residual_scale = read_factor(fields, "residual_multiplier", 1.0);
  config.logit_shape.scale = 1 / read_factor(fields, "logits_scaling", 1.0);
  config.attention_scales.assign(static_cast<size_t>(config.layers),
                                 read_factor(fields, "attention_multiplier", 1.0));
}

}  // namespace reprise
