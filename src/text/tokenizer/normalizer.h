// The first stage of a tokenizer: rewrites the text (tokenizer.json: "normalizer").
#pragma once

#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/normalized_string.h"
#include "text/unicode/regex.h"

#include <memory>

namespace reprise::text {

class Normalizer {
 public:
  Normalizer() = default;
  virtual ~Normalizer() = default;
  Normalizer(const Normalizer&) = delete;
  Normalizer& operator=(const Normalizer&) = delete;

  virtual void apply(NormalizedString& text) const = 0;
};

/// Throws c10::Error for an unsupported type.
std::unique_ptr<const Normalizer> make_normalizer(const JsonFields& fields);

enum class NormalForm { NFC, NFD, NFKC, NFKD };
std::unique_ptr<const Normalizer> make_unicode_normalizer(NormalForm form);

/// sentencepiece's compiled character map, as used by T5 and XLM-R.
std::unique_ptr<const Normalizer> make_precompiled_normalizer(const JsonFields& fields);

/// Reads {"pattern": {"String": ..} or {"Regex": ..}}, for Replace and Split.
Pattern read_pattern(const JsonFields& fields);

}  // namespace reprise::text
