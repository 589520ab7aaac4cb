#include "model/families/families.h"

#include <algorithm>
#include <array>

namespace reprise {

namespace {

// One row per family, by model_type.
const std::array kFamilies = {
    Family{"bloom", read_bloom, bloom_architecture},
    Family{"chatglm", read_chatglm, chatglm_architecture},
    Family{"cohere", read_cohere, [] { return cohere_architecture("Cohere"); }},
    Family{"cohere2", read_cohere2, [] { return cohere_architecture("Cohere2"); }},
    Family{"falcon", read_falcon, falcon_architecture, adapt_falcon},
    Family{"gemma", read_gemma, [] { return llama_architecture("Gemma"); }},
    Family{"gemma2", read_gemma2, gemma2_architecture},
    Family{"gemma3_text", read_gemma3, gemma3_architecture},
    Family{"glm", read_glm, glm_architecture},
    Family{"glm4", read_glm, glm4_architecture},
    Family{"gpt2", read_gpt2, gpt2_architecture},
    Family{"gpt_bigcode", read_gpt_bigcode, gpt_bigcode_architecture},
    Family{"gpt_neo", read_gpt_neo, gpt_neo_architecture},
    Family{"gpt_neox", read_gpt_neox, gpt_neox_architecture},
    Family{"gptj", read_gptj, gptj_architecture},
    Family{"granite", read_granite, [] { return llama_architecture("Granite"); }},
    Family{"llama", read_llama, [] { return llama_architecture("Llama"); }},
    Family{"ministral", read_ministral, [] { return llama_architecture("Ministral"); }},
    Family{"ministral3", read_ministral3, [] { return llama_architecture("Ministral3"); }},
    Family{"mistral", read_mistral, [] { return llama_architecture("Mistral"); }},
    Family{"nemotron", read_nemotron, nemotron_architecture},
    Family{"olmo2", read_olmo2, [] { return olmo2_architecture("Olmo2"); }},
    Family{"olmo3", read_olmo3, [] { return olmo2_architecture("Olmo3"); }},
    Family{"opt", read_opt, opt_architecture, adapt_opt},
    Family{"phi", read_phi, phi_architecture},
    Family{"phi3", read_phi3, phi3_architecture},
    Family{"qwen2", read_qwen2, [] { return llama_architecture("Qwen2"); }},
    Family{"qwen3", read_qwen3, [] { return llama_architecture("Qwen3"); }},
    Family{"smollm3", read_smollm3, [] { return llama_architecture("SmolLM3"); }},
    Family{"stablelm", read_stablelm, stablelm_architecture, adapt_stablelm},
    Family{"starcoder2", read_starcoder2, starcoder2_architecture},
};

}  // namespace

std::span<const Family> all_families() {
  return kFamilies;
}

const Family* find_family(const std::string& model_type) {
  const auto* found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& family) {
    return model_type == family.model_type;
  });
  return found == kFamilies.end() ? nullptr : found;
}

std::string supported_families() {
  std::string names;
  for (const auto& family : kFamilies) {
    names += std::string(names.empty() ? "" : ", ") + family.model_type;
  }
  return names;
}

Architecture architecture_of(const ModelConfig& config) {
  const Family* family = find_family(config.family);
  Architecture architecture = family->architecture();
  if (family->adapt != nullptr) {
    family->adapt(config, architecture);
  }
  return architecture;
}

}  // namespace reprise
