// Parses and checks a sentencepiece model file (a protobuf message) before libsentencepiece sees
// it. The library trusts the character map, and its protobuf prints warnings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::text {

enum class PieceType {
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,
  Unused = 5,
  Byte = 6
};

struct SentencePieceModel {
  struct Entry {
    std::string text;
    PieceType type = PieceType::Normal;
    float score = 0;
  };
  std::vector<Entry> pieces;
  bool add_dummy_prefix = true;
  bool is_bpe = false;  ///< else unigram, words or characters
};

/// Throws c10::Error with `source`, the byte and what is wrong.
SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& source);

/// The same model with add_dummy_prefix off.
std::string without_dummy_prefix(std::string model);

}  // namespace reprise::text
