// The first stage: rewriting the text before it is cut into words (tokenizer.json: "normalizer").
#pragma once

#include "text/aligned_text.h"
#include "text/json_fields.h"
#include "text/regex.h"

#include <memory>

namespace reprise::detail {

class Normalizer {
 public:
  Normalizer() = default;
  virtual ~Normalizer() = default;
  Normalizer(const Normalizer&) = delete;
  Normalizer& operator=(const Normalizer&) = delete;

  virtual void apply(AlignedText& text) const = 0;
};

/// Throws c10::Error naming a type that we do not have.
std::unique_ptr<const Normalizer> make_normalizer(const JsonFields& fields);

enum class NormalForm { NFC, NFD, NFKC, NFKD };
std::unique_ptr<const Normalizer> make_unicode_normalizer(NormalForm form);

/// sentencepiece's compiled character map, as T5 and XLM-R ship it.
std::unique_ptr<const Normalizer> make_precompiled_normalizer(const JsonFields& fields);

/// {"pattern": {"String": ..} or {"Regex": ..}}, which Replace and Split have.
Pattern read_pattern(const JsonFields& fields);

}  // namespace reprise::detail
