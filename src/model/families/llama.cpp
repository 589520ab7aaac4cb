// Llama 1 to 3.x and models of the same architecture (SmolLM, TinyLlama, Yi, …).
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture llama_architecture(const std::string& class_prefix) {
  Architecture architecture;  // the defaults are Llama's
  architecture.class_prefix = class_prefix;
  architecture.computed_buffers = {"rotary_emb.inv_freq"};
  return architecture;
}

void read_llama(ConfigReader& fields, ModelConfig& config) {
  read_llama_shape(fields, config);
  read_biases(fields, config);
  // pretraining_tp only splits matrix products; the others are notes of converters.
  fields.ignore({"pretraining_tp", "rope_interleaved", "is_llama_config"});
}

}  // namespace reprise
