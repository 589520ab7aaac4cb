// Models of text and of images or sound: which parts a config.json has, and the text part alone.
#pragma once

#include <reprise/io/json.h>

#include <optional>
#include <string>
#include <vector>

namespace reprise {

struct TextPart {
  Json config;                      ///< config.json of a text model with the same weights
  std::vector<std::string> others;  ///< fields that describe other parts: "vision_config"
};

/// std::nullopt for a model that has one part.
std::optional<TextPart> text_part(const Json& json);

/// "vision_config and audio_config".
std::string joined_parts(const std::vector<std::string>& parts);

/// The name that a tensor of a mixed model has in a text model: without the prefix of the text
/// part. std::nullopt for a tensor that has no such prefix.
std::optional<std::string> without_text_prefix(const std::string& name);

}  // namespace reprise
