// What a template uses of its limits, and the limit that stops it.
#pragma once

#include <reprise/io/json.h>
#include <reprise/jinja/chat_template.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace reprise::testing {

/// Fails if the template does.
inline TemplateUse use_of(const std::string& text, const Json& variables = Json::object()) {
  try {
    return ChatTemplate(text, "test").render(variables).used;
  } catch (const c10::Error& error) {
    ADD_FAILURE() << text.substr(0, 200) << ": " << error.what_without_backtrace();
    return {};
  }
}

/// The limit that the message of the failure names: "max_steps", ...; else the message.
inline std::string stopped_by(const std::string& text,
                              const TemplateLimits& limits = {},
                              const Json& variables = Json::object()) {
  try {
    const auto rendered = ChatTemplate(text, "test", limits).render(variables);
    return "nothing, after " + std::to_string(rendered.used.steps) + " steps and " +
           std::to_string(rendered.used.allocated) + " bytes";
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    for (const char* limit : {"max_steps", "max_allocated", "max_output", "max_depth"}) {
      if (message.find(std::string("TemplateLimits::") + limit) != std::string::npos) {
        return limit;
      }
    }
    return message;
  }
}

inline std::string repeated(std::string_view part, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) {
    result += part;
  }
  return result;
}

}  // namespace reprise::testing
