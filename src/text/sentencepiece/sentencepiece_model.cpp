// Parses the wire format of sentencepiece_model.proto. Field numbers are those of that file.
#include "text/sentencepiece/sentencepiece_model.h"

#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <unordered_set>

namespace reprise::text {
namespace {

enum class Wire { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

struct Field {
  uint64_t number;
  Wire wire;
  uint64_t value;          // of a varint
  std::string_view bytes;  // of the others
};

/// Reads a message field by field and checks every length against the remaining bytes.
class WireReader {
 public:
  WireReader(std::string_view message, const std::string& source)
      : rest_(message), source_(source) {}

  bool done() const { return rest_.empty(); }

  Field next() {
    const uint64_t key = varint();
    Field field{key >> 3, static_cast<Wire>(key & 7), 0, {}};
    check(field.number > 0 && field.number < (uint64_t{1} << 29), "a field number");
    switch (field.wire) {
      case Wire::Varint:
        field.value = varint();
        break;
      case Wire::Fixed64:
        field.bytes = take(8);
        break;
      case Wire::Fixed32:
        field.bytes = take(4);
        break;
      case Wire::Bytes:
        field.bytes = take(varint());
        break;
      default:
        check(false, "a known wire type");
    }
    return field;
  }

 private:
  void check(bool good, const char* expected) const {
    TORCH_CHECK(good,
                "[tokenizer] file ",
                source_,
                ": expected a sentencepiece model, found no ",
                expected,
                " where one must be, ",
                rest_.size(),
                " bytes before the end of a message");
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      check(!rest_.empty(), "whole number");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    check(false, "number of 64 bits");
    return 0;
  }

  std::string_view take(uint64_t length) {
    check(length <= rest_.size(), "field of its length");
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }

  std::string_view rest_;
  const std::string& source_;
};

SentencePieceModel::Entry read_piece(std::string_view message, const std::string& source) {
  SentencePieceModel::Entry entry;
  for (WireReader reader(message, source); !reader.done();) {
    const Field field = reader.next();
    if (field.number == 1 && field.wire == Wire::Bytes) {
      check_utf8(field.bytes, "file " + source + ": a piece");
      entry.text = field.bytes;
    } else if (field.number == 2 && field.wire == Wire::Fixed32) {
      std::memcpy(&entry.score, field.bytes.data(), sizeof(entry.score));
    } else if (field.number == 3 && field.wire == Wire::Varint) {
      TORCH_CHECK(field.value >= 1 && field.value <= 6,
                  "[tokenizer] file ",
                  source,
                  ": type of a piece: expected 1 to 6, found ",
                  field.value);
      entry.type = static_cast<PieceType>(field.value);
    }
  }
  return entry;
}

/// The character map: a length, a double-array trie of that length, and replacements that each end
/// with a zero byte. Every position that a walk through the trie can reach must exist.
void check_character_map(std::string_view map, const std::string& source) {
  if (map.empty()) {
    return;
  }
  const auto refuse = [&](const char* what) {
    TORCH_CHECK(false, "[tokenizer] file ", source, ": precompiled_charsmap: ", what);
  };
  uint32_t trie_bytes = 0;
  if (map.size() <= sizeof trie_bytes) {
    refuse("is too short");
  }
  std::memcpy(&trie_bytes, map.data(), sizeof trie_bytes);
  map.remove_prefix(sizeof trie_bytes);
  if (trie_bytes >= map.size() || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes < 1024) {
    refuse("the length of its trie does not fit");
  }
  const std::string_view replacements = map.substr(trie_bytes);
  if (replacements.back() != '\0') {
    refuse("its replacements do not end with a zero");
  }
  std::vector<uint32_t> units(trie_bytes / sizeof(uint32_t));
  std::memcpy(units.data(), map.data(), trie_bytes);
  for (size_t i = 0; i < units.size(); ++i) {
    const uint32_t unit = units[i];
    if ((unit >> 31) != 0 && i > 0) {
      continue;  // a value ends a walk; walks always start at the root
    }
    const size_t base = i ^ ((unit >> 10) << ((unit & 0x200) >> 6));
    if ((base | 0xFF) >= units.size()) {
      refuse("its trie points outside itself");
    }
    if ((unit & 0x100) != 0 && (units[base] & 0x7FFFFFFF) >= replacements.size()) {
      refuse("its trie points outside the replacements");
    }
  }
}

void read_normalizer(std::string_view message, const std::string& source, bool& add_dummy_prefix) {
  for (WireReader reader(message, source); !reader.done();) {
    const Field field = reader.next();
    if (field.number == 2 && field.wire == Wire::Bytes) {
      check_character_map(field.bytes, source);
    } else if (field.number == 3 && field.wire == Wire::Varint) {
      add_dummy_prefix = field.value != 0;
    }
  }
}

void read_trainer(std::string_view message, const std::string& source, bool& is_bpe) {
  for (WireReader reader(message, source); !reader.done();) {
    const Field field = reader.next();
    if (field.number == 3 && field.wire == Wire::Varint) {
      TORCH_CHECK(field.value >= 1 && field.value <= 4,
                  "[tokenizer] file ",
                  source,
                  ": model_type: expected 1 (unigram), 2 (bpe), 3 (word) or 4 (char), found ",
                  field.value);
      is_bpe = field.value == 2;
    }
  }
}

void check_pieces(const SentencePieceModel& model, const std::string& source) {
  std::unordered_set<std::string_view> seen;
  size_t unknown = 0;
  for (const auto& entry : model.pieces) {
    TORCH_CHECK(!entry.text.empty(), "[tokenizer] file ", source, ": a piece is empty");
    // The library builds its trie from zero-terminated strings and aborts on a zero inside.
    TORCH_CHECK(entry.text.find('\0') == std::string::npos,
                "[tokenizer] file ",
                source,
                ": a piece has a zero byte");
    TORCH_CHECK(seen.insert(entry.text).second,
                "[tokenizer] file ",
                source,
                ": piece \"",
                entry.text,
                "\" is there twice");
    unknown += entry.type == PieceType::Unknown ? 1 : 0;
  }
  TORCH_CHECK(unknown == 1,
              "[tokenizer] file ",
              source,
              ": expected one piece of type unknown, found ",
              unknown);
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& source) {
  SentencePieceModel model;
  for (WireReader reader(bytes, source); !reader.done();) {
    const Field field = reader.next();
    const bool is_message = field.wire == Wire::Bytes;
    TORCH_CHECK(field.number > 5 || is_message,
                "[tokenizer] file ",
                source,
                ": field ",
                field.number,
                " of a sentencepiece model: expected a message");
    switch (field.number) {
      case 1:
        model.pieces.push_back(read_piece(field.bytes, source));
        break;
      case 2:
        read_trainer(field.bytes, source, model.is_bpe);
        break;
      case 3:
        read_normalizer(field.bytes, source, model.add_dummy_prefix);
        break;
      case 5: {
        bool ignored = false;
        read_normalizer(field.bytes, source, ignored);
        break;
      }
      default:
        break;
    }
  }
  check_pieces(model, source);
  return model;
}

std::string without_dummy_prefix(std::string model) {
  // Protobuf merges a message field that occurs twice, and the later scalar wins: normalizer_spec
  // (3) with two bytes, add_dummy_prefix (3) = 0.
  model.append("\x1A\x02\x18\x00", 4);
  return model;
}

}  // namespace reprise::text
