// "%s" % values: fields, flags and the source of each value.
#include "jinja/builtins/format.h"
#include "jinja/values/operators.h"
#include "jinja/values/repr.h"
#include "jinja/values/unicode.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace reprise::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, std::string_view format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {}

  TextBuilder run() {
    TextBuilder result(runtime_);
    while (position_ < format_.size()) {
      runtime_.step();
      const size_t mark = std::min(format_.find('%', position_), format_.size());
      result.add(format_.substr(position_, mark - position_));
      position_ = mark + 1;
      if (mark < format_.size()) {
        field(result);
      }
    }
    const bool takes_all = values_.is_dict() || is_list_like() || used_mapping_;
    const size_t given = values_.is_tuple() ? values_.item_count() : 1;
    if (next_ < given && !takes_all) {
      throw Failure("not all arguments converted during string formatting");
    }
    return result;
  }

 private:
  // Python accepts unused values that can be indexed, because they may be a mapping.
  bool is_list_like() const {
    return values_.is_list() || values_.is_range() || values_.is_undefined();
  }

  char take() {
    if (position_ >= format_.size()) {
      throw Failure("incomplete format");
    }
    return format_[position_++];
  }

  Value next_value() {
    if (values_.is_tuple()) {
      if (next_ >= values_.item_count()) {
        throw Failure("not enough arguments for format string");
      }
      return values_.item_at(next_++);
    }
    if (next_++ > 0) {
      throw Failure("not enough arguments for format string");
    }
    return values_;
  }

  int64_t number_or_star() {
    if (position_ < format_.size() && format_[position_] == '*') {
      ++position_;
      const Value value = next_value();
      if (!value.is_integral()) {
        throw Failure("* wants int");
      }
      return std::clamp<int64_t>(value.as_int(), 0, INT32_MAX);
    }
    return read_format_digits(format_, position_);
  }

  void field(TextBuilder& out) {
    std::optional<Value> named;
    if (position_ < format_.size() && format_[position_] == '(') {
      named = mapped();
    }
    FormatSpec spec;
    spec.align = '>';
    bool zeros = false;
    while (position_ < format_.size() &&
           std::string_view("#0- +").find(format_[position_]) != std::string_view::npos) {
      const char flag = format_[position_++];
      spec.alternate = spec.alternate || flag == '#';
      zeros = zeros || flag == '0';
      spec.align = flag == '-' ? '<' : spec.align;
      spec.sign = flag == '+' ? '+' : flag == ' ' && spec.sign != '+' ? ' ' : spec.sign;
    }
    spec.width = number_or_star();
    if (position_ < format_.size() && format_[position_] == '.') {
      ++position_;
      spec.precision = number_or_star();
    }
    char conversion = take();
    while (conversion == 'l' || conversion == 'h' || conversion == 'L') {
      conversion = take();
    }
    if (conversion == '%') {
      return out.add('%');
    }
    const Value value = named ? *named : next_value();
    if (zeros && spec.align != '<' &&
        std::string_view("sra").find(conversion) == std::string_view::npos) {
      spec.align = '=';
      spec.fill = "0";
    }
    convert(out, value, conversion, spec);
  }

  Value mapped() {
    const size_t end = format_.find(')', position_);
    if (end == std::string_view::npos) {
      throw Failure("incomplete format key");
    }
    if (!values_.is_dict()) {
      throw Failure("format requires a mapping");
    }
    const std::string_view key = format_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    used_mapping_ = true;
    const Value* found = values_.as_dict().find(runtime_, key);
    if (found == nullptr) {
      throw Failure("format has no value for the key " + quote(key));
    }
    return *found;
  }

  void convert(TextBuilder& out, const Value& value, char conversion, FormatSpec spec) {
    switch (conversion) {
      case 's':
        return format_value(runtime_, out, to_text(runtime_, value), spec);
      case 'r':
      case 'a': {
        TextBuilder shown(runtime_);
        write_repr(runtime_, shown, value);
        return format_value(runtime_, out, runtime_.text(std::move(shown)), spec);
      }
      case 'c':
        if (value.is_text() && count_code_points(value.as_text(runtime_)) == 1) {
          return format_value(runtime_, out, value, spec);
        }
        spec.type = 'c';
        break;
      case 'd':
      case 'i':
      case 'u':
        spec.type = 'd';
        break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'x':
      case 'X':
      case 'o':
        spec.type = conversion;
        break;
      default:
        throw Failure(std::string("unsupported format character '") + conversion + "'");
    }
    require_defined(value);
    if (!value.is_number()) {
      throw Failure(std::string("%") + conversion + " format: a number is required, not " +
                    value.type_name());
    }
    const Value number = whole(value, spec);
    format_value(runtime_, out, number, spec);
  }

  // %d truncates a float; the precision of an integer is its minimum number of digits.
  Value whole(const Value& value, FormatSpec& spec) {
    if (spec.type != 'd') {
      return value;
    }
    Value number = value;
    if (value.is_float()) {
      if (!(std::abs(value.as_float()) < 9.2e18)) {
        throw Failure("cannot convert the float to an integer of 64 bits");
      }
      number = Value(static_cast<int64_t>(value.as_float()));
    }
    spec.precision = -1;
    return number.is_bool() ? Value(number.as_int()) : number;
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& values_;
  size_t position_ = 0;
  size_t next_ = 0;
  bool used_mapping_ = false;
};

}  // namespace

TextBuilder format_percent(Runtime& runtime, std::string_view format, const Value& values) {
  return PercentFormatter(runtime, format, values).run();
}

}  // namespace reprise::jinja
