#include "convert/gguf_pipelines.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace reprise::convert {
namespace {

// Patterns of the original tokenizer.json files, without how they split digits.
constexpr const char* kCl100k1 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kCl100k3 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
/// The same splits, as tiktoken writes them (phi-4, GLM-4).
constexpr const char* kCl100k3Possessive =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
constexpr const char* kTekken =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{"
    "N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kO200k =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|"
    "\\s+";
constexpr const char* kBloom = " ?[^(\\s|[.,!?…。，、।۔،])]+";

// Steps as text, so that they can be compared. Anything else is spelled "?".
constexpr const char* kGpt2Words = "gpt-2 words";
constexpr const char* kBytes = "bytes";
constexpr const char* kDigits = "digits";
constexpr const char* kNumbers = "runs of digits";
constexpr const char* kPunctuation = "punctuation";
constexpr const char* kSplit = "split ";

struct NamedPipeline {
  const char* name;
  std::vector<std::string> steps;
  bool ignore_merges = false;
  bool adds_bos = false;
  bool composes = false;  ///< NFC first
};

/// The first name of equal pipelines is the one that is written.
const std::vector<NamedPipeline>& pipelines() {
  static const std::string split = kSplit;
  static const std::vector<NamedPipeline> known = {
      {"gpt-2", {kGpt2Words, kBytes}},
      {"smollm", {kDigits, kGpt2Words, kBytes}},
      {"llama-bpe", {split + kCl100k3, kBytes}, true, true},
      {"qwen2", {split + kCl100k1, kBytes}, false, false, true},
      {"dbrx", {split + kCl100k3, kBytes}},
      {"dbrx", {split + kCl100k3Possessive, kBytes}},
      {"glm4", {split + kCl100k3Possessive, kBytes}, true},
      {"tekken", {split + kTekken, kBytes}, true, true},
      {"gpt-4o", {split + kO200k, kBytes}},
      {"falcon", {kPunctuation, kGpt2Words, kBytes, kNumbers, split + "[0-9][0-9][0-9]"}},
      {"bloom", {split + kBloom, kBytes}},
      {"llama3", {split + kCl100k3, kBytes}, true, true},
      {"llama-v3", {split + kCl100k3, kBytes}, true, true},
      {"phi-2", {kGpt2Words, kBytes}},
      {"olmo", {kGpt2Words, kBytes}, false, false, true},
      {"starcoder", {kDigits, kGpt2Words, kBytes}},
      {"refact", {kDigits, kGpt2Words, kBytes}},
      {"command-r", {kDigits, kGpt2Words, kBytes}, false, false, true},
      {"stablelm2", {split + kCl100k1, kBytes}},
      {"chatglm-bpe", {split + kCl100k3Possessive, kBytes}},
  };
  return known;
}

Json split_by(const std::string& pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

/// The steps as parts of tokenizer.json.
Json pre_tokenizer_of(const std::vector<std::string>& steps) {
  Json::array_t parts;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string& step = steps[i];
    if (step == kGpt2Words) {
      parts.push_back(byte_level(true));  // GPT-2's words are part of it
      ++i;
    } else if (step == kBytes) {
      parts.push_back(byte_level(false));
    } else if (step == kDigits) {
      parts.push_back({{"type", "Digits"}, {"individual_digits", true}});
    } else if (step == kNumbers) {
      parts.push_back({{"type", "Digits"}, {"individual_digits", false}});
    } else if (step == kPunctuation) {
      parts.push_back({{"type", "Punctuation"}, {"behavior", "Contiguous"}});
    } else {
      parts.push_back(split_by(step.substr(std::string_view(kSplit).size())));
    }
  }
  if (parts.size() == 1) {
    return parts.front();
  }
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool flag_at(const Json& object, const char* key, bool fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string split_step(const Json& part) {
  const std::string behavior = text_at(part, "behavior");
  // What is between matches is removed where matches are kept; these patterns match everything.
  const bool keeps_all = (behavior == "Isolated" && !flag_at(part, "invert", false)) ||
                         (behavior == "Removed" && flag_at(part, "invert", false));
  const auto pattern = part.find("pattern");
  return keeps_all && pattern != part.end() && pattern->is_object()
             ? kSplit + text_at(*pattern, "Regex")
             : "?";
}

/// Appends the steps of a part of tokenizer.json.
void add_steps(const Json& part, std::vector<std::string>& steps) {
  const std::string type = part.is_object() ? text_at(part, "type") : "";
  if (type == "Sequence" && part.contains("pretokenizers") && part["pretokenizers"].is_array()) {
    for (const Json& inner : part["pretokenizers"]) {
      add_steps(inner, steps);
    }
  } else if (type == "ByteLevel" && !flag_at(part, "add_prefix_space", true)) {
    if (flag_at(part, "use_regex", true)) {
      steps.emplace_back(kGpt2Words);
    }
    steps.emplace_back(kBytes);
  } else if (type == "Digits") {
    steps.emplace_back(flag_at(part, "individual_digits", false) ? kDigits : kNumbers);
  } else if (type == "Punctuation") {
    steps.emplace_back(text_at(part, "behavior") == "Contiguous" ? kPunctuation : "?");
  } else {
    steps.push_back(type == "Split" ? split_step(part) : "?");
  }
}

}  // namespace

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

std::optional<Pipeline> pipeline_named(const std::string& name) {
  for (const NamedPipeline& known : pipelines()) {
    if (known.name == name) {
      return Pipeline{.normalizer = known.composes ? Json{{"type", "NFC"}} : Json(),
                      .pre_tokenizer = pre_tokenizer_of(known.steps),
                      .ignore_merges = known.ignore_merges,
                      .adds_bos = known.adds_bos};
    }
  }
  return std::nullopt;
}

std::optional<std::string> pipeline_name(const Json& pre_tokenizer,
                                         bool ignore_merges,
                                         bool composes) {
  std::vector<std::string> steps;
  add_steps(pre_tokenizer, steps);
  std::optional<std::string> name;
  for (const NamedPipeline& known : pipelines()) {
    if (known.steps == steps && known.ignore_merges == ignore_merges) {
      if (known.composes == composes) {
        return known.name;
      }
      name = name.value_or(known.name);
    }
  }
  return name;
}

std::string pipeline_names() {
  std::vector<std::string> names;
  for (const NamedPipeline& known : pipelines()) {
    const std::string quoted = "\"" + std::string(known.name) + "\"";
    if (std::find(names.begin(), names.end(), quoted) == names.end()) {
      names.push_back(quoted);
    }
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text;
}

}  // namespace reprise::convert
