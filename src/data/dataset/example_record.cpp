// Records are little-endian: int64 line, float margin, int32 desirable, int32 number of sequences.
// Each sequence has int32 tokens, prompt, label kind, fill and whether soft labels follow; then ids
// as int32, labels, and soft labels as float. Usually every label is either the token id or one
// common value
// (`fill`). It is then stored as one bit per token (LabelKind::Mask), which halves the cache.
#include "data/dataset/example_record.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise::data {
namespace {

static_assert(std::endian::native == std::endian::little, "records are copied as is");

enum class LabelKind : int32_t { Mask = 0, Own = 1 };

template <class T>
void append(std::string& bytes, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

int32_t narrow(int64_t value, const char* what) {
  TORCH_CHECK(
      value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max(),
      "[data] expected ",
      what,
      " of 32 bits, found ",
      value);
  return static_cast<int32_t>(value);
}

/// The common value of all labels that differ from their token id; std::nullopt if there are
/// several.
std::optional<int64_t> fill_of(const TokenSequence& sequence) {
  std::optional<int64_t> fill;
  for (size_t i = 0; i < sequence.ids.size(); ++i) {
    const int64_t label = sequence.labels[i];
    if (label == sequence.ids[i]) {
      continue;
    }
    if (label != fill.value_or(label)) {
      return std::nullopt;
    }
    fill = label;
  }
  return fill.value_or(0);
}

void append_mask(const TokenSequence& sequence, std::string& bytes) {
  for (size_t first = 0; first < sequence.ids.size(); first += 8) {
    const size_t last = std::min(first + 8, sequence.ids.size());
    unsigned bits = 0;
    for (size_t i = first; i < last; ++i) {
      bits |= (sequence.labels[i] == sequence.ids[i] ? 1U : 0U) << (i - first);
    }
    append(bytes, static_cast<uint8_t>(bits));
  }
}

void append_sequence(const TokenSequence& sequence, std::string& bytes) {
  const size_t tokens = sequence.ids.size();
  TORCH_CHECK(sequence.labels.size() == tokens,
              "[data] expected as many labels as ids (",
              tokens,
              "), found ",
              sequence.labels.size());
  TORCH_CHECK(sequence.soft_labels.empty() || sequence.soft_labels.size() == tokens,
              "[data] expected as many soft labels as ids (",
              tokens,
              ") or none, found ",
              sequence.soft_labels.size());
  TORCH_CHECK(sequence.prompt >= 0 && sequence.prompt <= static_cast<int64_t>(tokens),
              "[data] expected a prompt of at most all ids (",
              tokens,
              "), found ",
              sequence.prompt);
  const auto fill = fill_of(sequence);
  append(bytes, narrow(static_cast<int64_t>(tokens), "a length"));
  append(bytes, static_cast<int32_t>(sequence.prompt));
  append(bytes, fill ? LabelKind::Mask : LabelKind::Own);
  append(bytes, narrow(fill.value_or(0), "a label"));
  append(bytes, int32_t{sequence.soft_labels.empty() ? 0 : 1});
  for (const int64_t id : sequence.ids) {
    append(bytes, narrow(id, "a token id"));
  }
  if (fill) {
    append_mask(sequence, bytes);
  } else {
    for (const int64_t label : sequence.labels) {
      append(bytes, narrow(label, "a label"));
    }
  }
  for (const float soft : sequence.soft_labels) {
    append(bytes, soft);
  }
}

/// Reads values from the front. failed() once too few bytes are left, and from then on.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T take() {
    T value{};
    if (const auto bytes = take_bytes(sizeof(T)); bytes.size() == sizeof(T)) {
      std::memcpy(&value, bytes.data(), sizeof(T));
    }
    return value;
  }

  /// `count` values of type From, as To.
  template <class From, class To>
  std::vector<To> take_all(size_t count) {
    // A division, because multiplying a malicious count could overflow.
    const bool fits = count <= rest_.size() / sizeof(From);
    const auto bytes = take_bytes(fits ? count * sizeof(From) : SIZE_MAX);
    std::vector<To> values(bytes.size() / sizeof(From));
    for (size_t i = 0; i < values.size(); ++i) {
      From value{};
      std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
      values[i] = static_cast<To>(value);
    }
    return values;
  }

  std::span<const std::byte> take_bytes(size_t count) {
    failed_ = failed_ || count > rest_.size();
    if (failed_) {
      return {};
    }
    const auto front = rest_.first(count);
    rest_ = rest_.subspan(count);
    return front;
  }

  bool failed() const { return failed_; }
  bool is_at_end() const { return !failed_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

std::vector<int64_t> take_masked_labels(Cursor& cursor,
                                        const std::vector<int64_t>& ids,
                                        int64_t fill) {
  const auto mask = cursor.take_bytes((ids.size() + 7) / 8);
  std::vector<int64_t> labels(ids.size(), fill);
  for (size_t i = 0; i < ids.size() && !cursor.failed(); ++i) {
    if ((std::to_integer<unsigned>(mask[i / 8]) >> (i % 8) & 1U) != 0) {
      labels[i] = ids[i];
    }
  }
  return labels;
}

std::optional<TokenSequence> take_sequence(Cursor& cursor) {
  const auto tokens = cursor.take<int32_t>();
  TokenSequence sequence;
  sequence.prompt = cursor.take<int32_t>();
  const auto kind = cursor.take<LabelKind>();
  const int64_t fill = cursor.take<int32_t>();
  const auto has_soft_labels = cursor.take<int32_t>();
  if (cursor.failed() || sequence.prompt < 0 || sequence.prompt > tokens) {
    return std::nullopt;
  }
  const auto count = static_cast<size_t>(tokens);
  sequence.ids = cursor.take_all<int32_t, int64_t>(count);
  sequence.labels = kind == LabelKind::Mask ? take_masked_labels(cursor, sequence.ids, fill)
                                            : cursor.take_all<int32_t, int64_t>(count);
  if (has_soft_labels != 0) {
    sequence.soft_labels = cursor.take_all<float, float>(count);
  }
  return cursor.failed() ? std::nullopt : std::optional(std::move(sequence));
}

}  // namespace

void append_record(const Example& example, std::string& bytes) {
  append(bytes, example.location.line);
  append(bytes, example.margin);
  append(bytes, int32_t{example.desirable ? 1 : 0});
  append(bytes, narrow(static_cast<int64_t>(example.sequences.size()), "a number of sequences"));
  for (const TokenSequence& sequence : example.sequences) {
    append_sequence(sequence, bytes);
  }
}

std::optional<Example> parse_record(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  Example example;
  example.location.line = cursor.take<int64_t>();
  example.margin = cursor.take<float>();
  example.desirable = cursor.take<int32_t>() != 0;
  const auto sequences = cursor.take<int32_t>();
  for (int32_t i = 0; i < sequences; ++i) {
    auto sequence = take_sequence(cursor);
    if (!sequence) {
      return std::nullopt;
    }
    example.sequences.push_back(std::move(*sequence));
  }
  return cursor.is_at_end() ? std::optional(std::move(example)) : std::nullopt;
}

int64_t longest_sequence(const Example& example) {
  size_t longest = 0;
  for (const TokenSequence& sequence : example.sequences) {
    longest = std::max(longest, sequence.ids.size());
  }
  return static_cast<int64_t>(longest);
}

}  // namespace reprise::data
