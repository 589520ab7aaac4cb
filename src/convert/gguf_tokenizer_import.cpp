// Rebuilds tokenizer.json. A pre-tokenizer whose name is not known is refused.
#include "convert/gguf_pipelines.h"
#include "convert/gguf_tokenizer.h"
#include "convert/gguf_vocabulary.h"
#include "io/gguf/gguf_fields.h"

#include <optional>
#include <string_view>
#include <utility>

namespace reprise::convert {
namespace {

using io::GgufFields;

constexpr const char* kModelKey = "tokenizer.ggml.model";
constexpr const char* kPreKey = "tokenizer.ggml.pre";

struct Parts {
  Pipeline pipeline;
  Json decoder;
};

Json sequence(const char* part, Json::array_t steps) {
  return {{"type", "Sequence"}, {part, std::move(steps)}};
}

Parts byte_level_parts(const GgufFields& fields, std::vector<std::string>& warnings) {
  const std::string pre = fields.string(kPreKey).value_or("default");
  if (pre == "default") {
    warnings.push_back(std::string(kPreKey) + " names no pre-tokenizer; GPT-2's is assumed");
  }
  auto pipeline = pipeline_named(pre == "default" ? "gpt-2" : pre);
  if (!pipeline) {
    fields.refuse(kPreKey, pipeline_names(), "\"" + pre + "\"");
  }
  return {*std::move(pipeline), byte_level(true)};
}

/// Spaces are written as U+2581, and one is put before the text.
Parts sentencepiece_parts(const GgufFields& fields) {
  const char* const mark = "\u2581";
  const bool prefix = fields.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  const Json to_mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}};
  const Json to_space = {{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}};
  Json::array_t normalizers;
  Json::array_t decoders = {to_space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (prefix) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", mark}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(to_mark);
  return {{.normalizer = sequence("normalizers", std::move(normalizers)),
           .pre_tokenizer = nullptr,
           .adds_bos = true},
          sequence("decoders", std::move(decoders))};
}

/// The token that a key such as tokenizer.ggml.bos_token_id names.
std::optional<std::string> token_named(const GgufFields& fields,
                                       const GgufVocabulary& vocabulary,
                                       const std::string& key) {
  const auto id = fields.integer(key);
  if (!id) {
    return std::nullopt;
  }
  if (static_cast<size_t>(*id) >= vocabulary.tokens.size()) {
    fields.refuse(
        key, "an id below " + std::to_string(vocabulary.tokens.size()), std::to_string(*id));
  }
  return vocabulary.tokens[static_cast<size_t>(*id)];
}

/// Tokens that are matched in the text before anything else.
Json::array_t added_tokens(const GgufVocabulary& vocabulary) {
  Json::array_t added;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenKind kind = vocabulary.kinds[id];
    const bool is_special = kind == TokenKind::Control || kind == TokenKind::Unknown;
    if (is_special || kind == TokenKind::UserDefined) {
      added.push_back({{"id", id},
                       {"content", vocabulary.tokens[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", is_special}});
    }
  }
  return added;
}

/// Adds the BOS and EOS tokens around the text if the model wants them.
Json post_processor(const GgufFields& fields,
                    const GgufVocabulary& vocabulary,
                    const Pipeline& pipeline) {
  Json::array_t single;
  Json::array_t pair;
  Json specials = Json::object();
  const auto add = [&](const std::string& key, int type) {
    const std::string token = fields.required(token_named(fields, vocabulary, key), key);
    specials[token] = {{"id", token},
                       {"ids", Json::array({fields.integer(key).value_or(0)})},
                       {"tokens", Json::array({token})}};
    return Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  const bool adds_bos = fields.boolean("tokenizer.ggml.add_bos_token").value_or(pipeline.adds_bos);
  const bool adds_eos = fields.boolean("tokenizer.ggml.add_eos_token").value_or(false);
  if (!adds_bos && !adds_eos) {
    return nullptr;
  }
  for (const auto& [name, type] : {std::pair("A", 0), std::pair("B", 1)}) {
    Json::array_t one;
    if (adds_bos) {
      one.push_back(add("tokenizer.ggml.bos_token_id", type));
    }
    one.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    if (adds_eos) {
      one.push_back(add("tokenizer.ggml.eos_token_id", type));
    }
    pair.insert(pair.end(), one.begin(), one.end());
    if (type == 0) {
      single = std::move(one);
    }
  }
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(specials)}};
}

/// Every usable token is in the model's vocabulary, including the added ones, so that ids are those
/// of the file.
Json::object_t vocabulary_json(const GgufVocabulary& vocabulary) {
  Json::object_t ids;
  ids.reserve(vocabulary.tokens.size());
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.kinds[id] != TokenKind::Unused) {
      ids.emplace_back(vocabulary.tokens[id], id);
    }
  }
  return ids;
}

Json tokenizer_config(const GgufFields& fields,
                      const GgufVocabulary& vocabulary,
                      std::vector<std::string>& warnings) {
  const std::string context =
      fields.string("general.architecture").value_or("") + ".context_length";
  Json config = {{"clean_up_tokenization_spaces", false},
                 {"model_max_length", fields.required(fields.integer(context), context)},
                 {"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const auto& [name, key] : {std::pair("bos_token", "tokenizer.ggml.bos_token_id"),
                                  std::pair("eos_token", "tokenizer.ggml.eos_token_id"),
                                  std::pair("unk_token", "tokenizer.ggml.unknown_token_id"),
                                  std::pair("pad_token", "tokenizer.ggml.padding_token_id")}) {
    if (const auto token = token_named(fields, vocabulary, key)) {
      config[name] = *token;
    }
  }
  if (const auto chat_template = fields.string("tokenizer.chat_template")) {
    config["chat_template"] = *chat_template;
  }
  if (fields.find("tokenizer.chat_templates") != nullptr) {
    warnings.emplace_back("only the default chat template is imported");
  }
  return config;
}

}  // namespace

GgufTokenizer imported_tokenizer(const io::GgufFile& file, std::vector<std::string>& warnings) {
  const GgufFields fields(file);
  const std::string kind = fields.required(fields.string(kModelKey), kModelKey);
  if (kind == "none" || kind == "no_vocab") {
    warnings.emplace_back("the file has no tokenizer");
    return {};
  }
  const bool is_byte_level = kind == "gpt2";
  if (!is_byte_level && kind != "llama") {
    fields.refuse(kModelKey, "\"gpt2\" or \"llama\"", "\"" + kind + "\"");
  }
  const GgufVocabulary vocabulary = read_vocabulary(fields);
  Parts parts = is_byte_level ? byte_level_parts(fields, warnings) : sentencepiece_parts(fields);
  Pipeline& pipeline = parts.pipeline;
  const auto unknown = token_named(fields, vocabulary, "tokenizer.ggml.unknown_token_id");
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", is_byte_level || !unknown ? Json(nullptr) : Json(*unknown)},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", !is_byte_level},
                {"byte_fallback", !is_byte_level},
                {"ignore_merges", pipeline.ignore_merges}};
  model["vocab"] = vocabulary_json(vocabulary);
  model["merges"] =
      is_byte_level ? read_merges(fields, vocabulary) : merges_from_scores(fields, vocabulary);
  GgufTokenizer files;
  files.tokenizer = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  files.tokenizer["added_tokens"] = added_tokens(vocabulary);
  files.tokenizer["normalizer"] = std::move(pipeline.normalizer);
  files.tokenizer["pre_tokenizer"] = pipeline.pre_tokenizer;
  files.tokenizer["post_processor"] = post_processor(fields, vocabulary, pipeline);
  files.tokenizer["decoder"] = std::move(parts.decoder);
  files.tokenizer["model"] = std::move(model);
  files.tokenizer_config = tokenizer_config(fields, vocabulary, warnings);
  return files;
}

}  // namespace reprise::convert
