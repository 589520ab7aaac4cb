// Global functions.
#include "jinja/builtins/globals.h"

#include "jinja/arguments.h"
#include "jinja/values/objects.h"
#include "jinja/values/operators.h"
#include "jinja/values/repr.h"

#include <algorithm>
#include <array>
#include <ctime>

namespace reprise::jinja {
namespace {

Value make_range(Runtime&, const Arguments& arguments) {
  if (!arguments.keyword.empty() || arguments.positional.empty() ||
      arguments.positional.size() > 3) {
    throw Failure("range expects 1 to 3 arguments by position");
  }
  const auto at = [&](size_t i) { return to_index(arguments.positional[i], "range"); };
  Range range;
  if (arguments.positional.size() == 1) {
    range.stop = at(0);
  } else {
    range.start = at(0);
    range.stop = at(1);
    range.step = arguments.positional.size() == 3 ? at(2) : 1;
  }
  if (range.step == 0) {
    throw Failure("range() arg 3 must not be zero");
  }
  if (range.size() > Range::kMaxRange) {
    throw Failure("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" +
                  std::to_string(Range::kMaxRange) + ").");
  }
  return Value(range);
}

// The entries for dict() and namespace(): a dict or pairs, then keyword arguments.
Dict entries(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    throw Failure("dict expected at most 1 argument, got " +
                  std::to_string(arguments.positional.size()));
  }
  Dict result;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      result = source.as_dict().copy(runtime);
    } else {
      for (const Value& pair : to_values(runtime, source)) {
        const Values parts = to_values(runtime, pair);
        if (parts.size() != 2) {
          throw Failure("dict expects pairs, found " + std::to_string(parts.size()) + " values");
        }
        result.set(runtime, parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.keyword) {
    result.set(runtime, runtime.text(name), value);
  }
  return result;
}

Value make_dict(Runtime& runtime, const Arguments& arguments) {
  return runtime.dict(entries(runtime, arguments));
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  auto result = runtime.make<Namespace>();
  const Dict attributes = entries(runtime, arguments);
  for (const auto& [key, value] : attributes.entries(runtime)) {
    if (!key.is_text()) {
      throw Failure("namespace expects names as keys, found '" + key.type_name() + "'");
    }
    result->set(runtime, key.as_text(runtime), value);
  }
  return Value(std::shared_ptr<Object>(std::move(result)));
}

Value make_cycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.keyword.empty()) {
    throw Failure("cycler: at least one item has to be provided");
  }
  ItemBuilder items(runtime);
  items.add(arguments.positional);
  return Value(std::shared_ptr<Object>(runtime.make<Cycler>(items.take())));
}

Value make_joiner(Runtime& runtime, const Arguments& arguments) {
  ArgumentReader reader(runtime, "joiner", arguments, {"sep"});
  return Value(std::shared_ptr<Object>(
      runtime.make<Joiner>(reader.optional().value_or(Value::literal(", ")))));
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  ArgumentReader reader(runtime, "raise_exception", arguments, {"message"});
  const Value message = to_text(runtime, reader.required());
  throw Failure(message.as_text(runtime));
}

// Expands what C's strftime lacks: %f, and empty %z and %Z as for a Python time without zone.
TextBuilder expand_format(Runtime& runtime, std::string_view format) {
  // The leading space distinguishes an empty result from a buffer that is too small.
  TextBuilder result(runtime);
  result.add(' ');
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      result.add(format[i]);
      continue;
    }
    const char directive = format[++i];
    if (directive == 'f') {
      result.add("000000");
    } else if (directive != 'z' && directive != 'Z') {
      result.add('%');
      result.add(directive);
    }
  }
  return result;
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  ArgumentReader reader(runtime, "strftime_now", arguments, {"format"});
  const std::string format = expand_format(runtime, reader.required_text()).take();
  const std::tm now = runtime.clock()();
  for (size_t size = 256;; size *= 4) {
    runtime.charge(size);
    runtime.read(size + format.size());
    std::string buffer(size, '\0');
    const size_t used = std::strftime(buffer.data(), size, format.c_str(), &now);
    if (used > 0) {
      return runtime.text(std::string_view(buffer).substr(1, used - 1));
    }
  }
}

struct Global {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Arguments& arguments);
};

constexpr auto kGlobals = std::to_array<Global>({
    {"cycler", make_cycler},
    {"dict", make_dict},
    {"joiner", make_joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", make_range},
    {"strftime_now", strftime_now},
});

}  // namespace

std::optional<Value> find_global(Runtime& runtime, std::string_view name) {
  const auto* found = std::find_if(
      kGlobals.begin(), kGlobals.end(), [&](const Global& global) { return global.name == name; });
  if (found == kGlobals.end()) {
    return std::nullopt;
  }
  return make_function(runtime, name, found->apply);
}

}  // namespace reprise::jinja
