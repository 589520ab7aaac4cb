// The pre-tokenizers that llama.cpp knows by name. A GGUF file has the name alone; what it means is
// in llama.cpp's source. Each name stands here for the pipeline in the tokenizer.json of the
// original models.
#pragma once

#include <reprise/io/json.h>

#include <optional>
#include <string>

namespace reprise::convert {

/// What differs between byte-level tokenizers; parts of tokenizer.json.
struct Pipeline {
  Json normalizer;
  Json pre_tokenizer;
  bool ignore_merges = false;
  bool adds_bos = false;  ///< if the file does not say
};

std::optional<Pipeline> pipeline_named(const std::string& name);

/// The name whose pre-tokenizer splits every text as this one does, if there is one, with the same
/// answer to whether it composes characters (NFC) before.
std::optional<std::string> pipeline_name(const Json& pre_tokenizer,
                                         bool ignore_merges,
                                         bool composes);

/// "\"gpt-2\", \"smollm\" or …", for messages.
std::string pipeline_names();

Json byte_level(bool use_regex);

}  // namespace reprise::convert
