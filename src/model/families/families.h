// The table of model families, and what the file of each defines: how its config.json is read into
// a ModelConfig, and its Architecture.
#pragma once

#include "model/families/architecture.h"

#include <span>
#include <string>

namespace reprise {

class ConfigReader;

struct Family {
  const char* model_type;                                   ///< its name in transformers
  void (*read)(ConfigReader& fields, ModelConfig& config);  ///< throws for values not supported
  Architecture (*architecture)();
  /// Changes what follows from config.json; null: nothing does.
  void (*adapt)(const ModelConfig& config, Architecture& architecture) = nullptr;
};

std::span<const Family> all_families();
/// The family with this model_type; null: there is none.
const Family* find_family(const std::string& model_type);
/// The model_types of all families, for messages.
std::string supported_families();

void read_bloom(ConfigReader& fields, ModelConfig& config);
void read_chatglm(ConfigReader& fields, ModelConfig& config);
void read_cohere(ConfigReader& fields, ModelConfig& config);
void read_cohere2(ConfigReader& fields, ModelConfig& config);
void read_falcon(ConfigReader& fields, ModelConfig& config);
void read_gemma(ConfigReader& fields, ModelConfig& config);
void read_gemma2(ConfigReader& fields, ModelConfig& config);
void read_gemma3(ConfigReader& fields, ModelConfig& config);
void read_glm(ConfigReader& fields, ModelConfig& config);
void read_gpt2(ConfigReader& fields, ModelConfig& config);
void read_gpt_bigcode(ConfigReader& fields, ModelConfig& config);
void read_gpt_neo(ConfigReader& fields, ModelConfig& config);
void read_gpt_neox(ConfigReader& fields, ModelConfig& config);
void read_gptj(ConfigReader& fields, ModelConfig& config);
void read_granite(ConfigReader& fields, ModelConfig& config);
void read_llama(ConfigReader& fields, ModelConfig& config);
void read_ministral(ConfigReader& fields, ModelConfig& config);
void read_ministral3(ConfigReader& fields, ModelConfig& config);
void read_mistral(ConfigReader& fields, ModelConfig& config);
void read_nemotron(ConfigReader& fields, ModelConfig& config);
void read_olmo2(ConfigReader& fields, ModelConfig& config);
void read_olmo3(ConfigReader& fields, ModelConfig& config);
void read_opt(ConfigReader& fields, ModelConfig& config);
void read_phi(ConfigReader& fields, ModelConfig& config);
void read_phi3(ConfigReader& fields, ModelConfig& config);
void read_qwen2(ConfigReader& fields, ModelConfig& config);
void read_qwen3(ConfigReader& fields, ModelConfig& config);
void read_smollm3(ConfigReader& fields, ModelConfig& config);
void read_stablelm(ConfigReader& fields, ModelConfig& config);
void read_starcoder2(ConfigReader& fields, ModelConfig& config);

Architecture bloom_architecture();
Architecture chatglm_architecture();
Architecture cohere_architecture(const std::string& class_prefix);
Architecture falcon_architecture();
Architecture gemma2_architecture();
Architecture gemma3_architecture();
Architecture glm_architecture();
Architecture glm4_architecture();
Architecture gpt2_architecture();
Architecture gpt_bigcode_architecture();
Architecture gpt_neo_architecture();
Architecture gpt_neox_architecture();
Architecture gptj_architecture();
Architecture llama_architecture(const std::string& class_prefix);
Architecture nemotron_architecture();
Architecture olmo2_architecture(const std::string& class_prefix);
Architecture opt_architecture();
Architecture phi3_architecture();
Architecture phi_architecture();
Architecture stablelm_architecture();
Architecture starcoder2_architecture();

void adapt_falcon(const ModelConfig& config, Architecture& architecture);
void adapt_opt(const ModelConfig& config, Architecture& architecture);
void adapt_stablelm(const ModelConfig& config, Architecture& architecture);

}  // namespace reprise
