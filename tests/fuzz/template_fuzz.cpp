// Chat templates: whatever the text, parsing and rendering end soon, and only c10::Error comes out.
// One that needs more than small limits is rendered with the real ones too, whose steps alone are
// divided by how much slower this build is: libFuzzer's own limits on time and memory then say
// whether they hold.
#include <reprise/jinja/chat_template.h>

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

const reprise::Json& variables() {
  static const reprise::Json kVariables = reprise::Json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief. "},
      {"role": "user", "content": "Grüße 👍 {{ x }}"},
      {"role": "assistant", "content": null,
       "tool_calls": [{"id": "abc123def", "function": {"name": "f", "arguments": {"x": 1.5}}}]},
      {"role": "tool", "content": [{"type": "text", "text": "ok"}]}
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}}],
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true,
    "xs": [3, 1, 2, -7, 0.5, true, null, "a"], "n": 9223372036854775807
  })");
  return kVariables;
}

/// Whether a limit stopped the template. Traps if the rendering used more than it may.
bool is_stopped(std::string_view text, const reprise::TemplateLimits& limits) {
  try {
    const reprise::ChatTemplate chat(text, "fuzz", limits);
    const auto rendered = chat.render(variables(), [] { return std::tm{}; });
    if (rendered.used.steps > limits.max_steps || rendered.used.allocated > limits.max_allocated ||
        rendered.text.size() > limits.max_output) {
      __builtin_trap();
    }
    for (const auto& [begin, end] : rendered.generated) {
      if (begin > end || end > rendered.text.size()) {
        __builtin_trap();
      }
    }
    return false;
  } catch (const c10::Error& error) {
    return error.msg().find("TemplateLimits::") != std::string::npos;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  reprise::TemplateLimits small;
  small.max_steps = 20'000;
  small.max_output = size_t{1} << 16;
  small.max_allocated = size_t{1} << 22;
  if (is_stopped(text, small)) {
    constexpr size_t kSlowerThanARelease = 100;
    reprise::TemplateLimits real;
    real.max_steps /= kSlowerThanARelease;
    is_stopped(text, real);
  }
  return 0;
}
