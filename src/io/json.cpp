// parse_json uses nlohmann's SAX parser with its own handler, for four reasons: depth is bounded
// while parsing, duplicate keys are refused, errors have a position, and objects are built in
// linear time (ordered_json's own insertion searches the whole object: quadratic for a vocabulary).
#include <reprise/io/file.h>
#include <reprise/io/json.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

/// Iterates over the text and records in `position` how far the parser has read.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* at, const char** position) : at_(at), position_(position) {}
  const char& operator*() const { return *at_; }
  TrackedIterator& operator++() {
    *position_ = ++at_;
    return *this;
  }
  TrackedIterator operator++(int) {
    TrackedIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackedIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackedIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** position_;
};

/// "file.json:3:17": line, and byte of the line, both from 1.
std::string location(const std::string& source, std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

/// The exception's text without its id and position, which our messages give themselves, and
/// shortened in case of a very long token.
std::string reason(const nlohmann::json::exception& error) {
  constexpr size_t kLongest = 300;
  const std::string_view text = error.what();
  for (const std::string_view mark : {": syntax error ", "] "}) {
    if (const size_t found = text.find(mark); found != std::string::npos) {
      return std::string(text.substr(found + mark.size(), kLongest));
    }
  }
  return std::string(text.substr(0, kLongest));
}

struct Member {
  std::string key;
  Json value;
  size_t offset;  // one past the key, in the text
};

/// An array or object that is not closed yet.
struct Open {
  bool is_object;
  std::vector<Member> members;
  Json::array_t items;
};

/// Builds the value. The callbacks' names and signatures are nlohmann's.
class Builder {
 public:
  Builder(std::string_view text, const std::string& source, const JsonLimits& limits)
      : text_(text), source_(source), limits_(limits), position_(text.data()) {}

  Json build() {
    const char* const begin = text_.data();
    // The parser stops when a callback returns false; ours throw instead.
    const bool whole = Json::sax_parse(TrackedIterator(begin, &position_),
                                       TrackedIterator(begin + text_.size(), &position_),
                                       this);
    TORCH_INTERNAL_ASSERT(whole && open_.empty());
    return std::move(root_);
  }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { TORCH_INTERNAL_ASSERT(false, "JSON text has no binary values"); }

  bool start_object(size_t) { return open(true); }
  bool start_array(size_t) { return open(false); }

  bool key(std::string& name) {
    open_.back().members.push_back({std::move(name), nullptr, offset()});
    return true;
  }

  bool end_array() {
    Json::array_t items = std::move(open_.back().items);
    open_.pop_back();
    return add(std::move(items));
  }

  bool end_object() {
    std::vector<Member> members = std::move(open_.back().members);
    open_.pop_back();
    refuse_duplicates(members);
    Json::object_t object;
    object.reserve(members.size());  // a reallocation would copy every value
    for (Member& member : members) {
      object.emplace_back(std::move(member.key), std::move(member.value));
    }
    return add(std::move(object));
  }

  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception& error) {
    // `at` counts the bytes read; the last of them is the wrong one.
    TORCH_CHECK(
        false, "[json] ", location(source_, text_, at == 0 ? 0 : at - 1), ": ", reason(error));
  }

 private:
  size_t offset() const { return static_cast<size_t>(position_ - text_.data()); }

  template <class T>
  bool add(T&& value) {
    TORCH_CHECK(values_++ < limits_.max_values,
                "[json] ",
                location(source_, text_, offset() - 1),
                ": more than ",
                limits_.max_values,
                " values");
    if (open_.empty()) {
      root_ = std::forward<T>(value);
    } else if (open_.back().is_object) {
      open_.back().members.back().value = std::forward<T>(value);
    } else {
      open_.back().items.emplace_back(std::forward<T>(value));
    }
    return true;
  }

  bool open(bool is_object) {
    TORCH_CHECK(open_.size() < limits_.max_depth,
                "[json] ",
                location(source_, text_, offset() - 1),
                ": nested more than ",
                limits_.max_depth,
                " deep");
    open_.push_back({is_object, {}, {}});
    return true;
  }

  void refuse_duplicates(const std::vector<Member>& members) const {
    std::vector<const Member*> sorted;
    sorted.reserve(members.size());
    for (const Member& member : members) {
      sorted.push_back(&member);
    }
    std::sort(sorted.begin(), sorted.end(), [](const Member* a, const Member* b) {
      return std::tie(a->key, a->offset) < std::tie(b->key, b->offset);
    });
    const auto twice =
        std::adjacent_find(sorted.begin(), sorted.end(), [](const Member* a, const Member* b) {
          return a->key == b->key;
        });
    if (twice != sorted.end()) {
      const Member& second = **std::next(twice);
      TORCH_CHECK(false,
                  "[json] ",
                  location(source_, text_, second.offset - 1),
                  ": the key \"",
                  second.key.substr(0, 200),
                  "\" appears twice in one object");
    }
  }

  std::string_view text_;
  const std::string& source_;
  JsonLimits limits_;
  size_t values_ = 0;
  const char* position_;
  std::vector<Open> open_;
  Json root_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& source, const JsonLimits& limits) {
  TORCH_CHECK(text.size() <= limits.max_bytes,
              "[json] ",
              source,
              ": expected at most ",
              limits.max_bytes,
              " bytes, found ",
              text.size());
  // The parser would take a zero byte for the end of the text.
  const size_t zero = text.find('\0');
  TORCH_CHECK(
      zero == std::string_view::npos, "[json] ", location(source, text, zero), ": a zero byte");
  return Builder(text, source, limits).build();
}

Json read_json(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(read_file(path, limits.max_bytes), path.string(), limits);
}

std::string json_text(const Json& json, const std::string& source) {
  try {
    return json.dump(2) + "\n";
  } catch (const Json::exception& error) {  // a string that is not UTF-8
    TORCH_CHECK(false, "[json] cannot write ", source, ": ", reason(error));
  }
}

void write_json(const std::filesystem::path& path, const Json& json) {
  write_file(path, json_text(json, path.string()));
}

std::string kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "the integer " + value.dump();
    case Json::value_t::number_float:
      return "the number " + value.dump();
    default:
      return "no JSON value";
  }
}

}  // namespace reprise
