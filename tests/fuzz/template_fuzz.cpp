// Chat templates: whatever the text, parsing and rendering end soon, and only c10::Error comes out.
#include <reprise/jinja/chat_template.h>

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  reprise::TemplateLimits limits;
  limits.max_steps = 20'000;
  limits.max_output = size_t{1} << 16;
  limits.max_allocated = size_t{1} << 22;
  try {
    const reprise::ChatTemplate chat({reinterpret_cast<const char*>(data), size}, "fuzz", limits);
    const auto rendered = chat.render(variables(), [] { return std::tm{}; });
    for (const auto& [begin, end] : rendered.generated) {
      if (begin > end || end > rendered.text.size()) {
        __builtin_trap();
      }
    }
  } catch (const c10::Error&) {
  }
  return 0;
}
