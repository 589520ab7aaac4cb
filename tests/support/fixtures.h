// Where the committed fixtures are: tests/fixtures, whose generate.py says how each was made.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise::testing {

/// The folder; the environment variable REPRISE_FIXTURES names another, for a build folder that was
/// moved to a GPU machine.
inline std::filesystem::path fixtures() {
  if (const char* moved = std::getenv("REPRISE_FIXTURES")) {
    return moved;
  }
#ifdef REPRISE_FIXTURES
  return REPRISE_FIXTURES;
#else
  return "tests/fixtures";
#endif
}

/// Models with a language-model head that transformers computed: all but ChatGLM's.
inline const std::vector<std::string>& transformers_language_models() {
  static const std::vector<std::string> names = {"llama",
                                                 "llama_untied",
                                                 "llama3_rope",
                                                 "llama_linear_rope",
                                                 "llama_dynamic_rope",
                                                 "llama_yarn_rope",
                                                 "llama_longrope",
                                                 "llama_proportional_rope",
                                                 "llama_biases",
                                                 "mistral",
                                                 "qwen2",
                                                 "qwen2_window",
                                                 "qwen3",
                                                 "gpt2",
                                                 "gpt_neox",
                                                 "gpt_neox_sequential",
                                                 "gemma",
                                                 "gemma2",
                                                 "gemma3",
                                                 "phi3",
                                                 "phi3_longrope",
                                                 "smollm3",
                                                 "smollm3_window",
                                                 "olmo2",
                                                 "olmo3",
                                                 "granite",
                                                 "glm",
                                                 "glm4",
                                                 "cohere",
                                                 "cohere2",
                                                 "ministral",
                                                 "ministral3",
                                                 "phi",
                                                 "phi_qk_norm",
                                                 "falcon",
                                                 "falcon_grouped",
                                                 "falcon_one_norm",
                                                 "falcon_alibi",
                                                 "bloom",
                                                 "bloom_residual_of_norm",
                                                 "opt",
                                                 "opt_post_norm",
                                                 "opt_bare",
                                                 "gptj",
                                                 "gpt_neo",
                                                 "stablelm",
                                                 "stablelm_parallel",
                                                 "starcoder2",
                                                 "nemotron",
                                                 "gpt_bigcode",
                                                 "gpt_bigcode_multi_head"};
  return names;
}

}  // namespace reprise::testing
