// Writes configurations as YAML. Values are JSON on one line, which is valid YAML, so that no
// string can be mistaken for a number, null or true.
#include "reprise/training/flags/flags.h"

#include <c10/util/Exception.h>

#include <sstream>

namespace reprise::app {

namespace {

void write_value(std::ostream& out, const Json& value) {
  if (!value.is_structured()) {
    out << value.dump();
    return;
  }
  // YAML needs a space after colons, which dump() omits.
  const bool is_map = value.is_object();
  const char* separator = "";
  out << (is_map ? "{" : "[");
  for (const auto& [key, item] : value.items()) {
    out << separator;
    if (is_map) {
      out << Json(key).dump() << ": ";
    }
    write_value(out, item);
    separator = ", ";
  }
  out << (is_map ? "}" : "]");
}

}  // namespace

std::string to_yaml(const Json& configuration) {
  TORCH_CHECK(
      configuration.is_object(), "expected a configuration, found ", kind_of(configuration));
  std::ostringstream out;
  for (const auto& [name, value] : configuration.items()) {
    out << name << ": ";
    write_value(out, value);
    out << "\n";
  }
  return out.str();
}

}  // namespace reprise::app
