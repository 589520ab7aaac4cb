// Chat templates: Jinja templates that turn messages into the text a model was trained on.
//
// The output equals that of Python's jinja2 as transformers configures it (trim_blocks,
// lstrip_blocks, loop controls, sandboxed, `tojson` without HTML escapes). Templates are untrusted
// code: their time and memory are bounded, and a template can access only its variables.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstddef>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise {

/// What a template may use. Every operation charges what it touches and makes, before it does.
struct TemplateLimits {
  size_t max_text = size_t{256} << 10;   ///< bytes of the template text
  size_t max_depth = 256;                ///< nested expressions, blocks, macro calls and values
  size_t max_steps = 10'000'000;         ///< nodes evaluated, items visited, 32 bytes of text read
  size_t max_output = size_t{64} << 20;  ///< bytes of the rendered text
  size_t max_allocated = size_t{1} << 30;  ///< bytes of all values that were made, also freed ones
};

/// What a rendering used of its limits.
struct TemplateUse {
  size_t steps = 0;
  size_t allocated = 0;
};

/// The time for strftime_now(). Empty: the local time.
using TemplateClock = std::function<std::tm()>;

/// Half-open byte ranges of a rendered text.
using ByteRanges = std::vector<std::pair<size_t, size_t>>;

struct RenderedChat {
  std::string text;
  ByteRanges generated;  ///< inside {% generation %}: written by the assistant
  TemplateUse used = {};
};

class REPRISE_API ChatTemplate {
 public:
  /// Parses the template. Throws c10::Error with `source`, the line and what is wrong.
  explicit ChatTemplate(std::string_view text,
                        const std::string& source = "chat template",
                        const TemplateLimits& limits = {});

  /// Renders with these variables (an object: messages, tools, add_generation_prompt, bos_token,
  /// ...). Throws c10::Error for an error in the template, and with the template's own message if
  /// it calls raise_exception.
  RenderedChat render(const Json& variables, const TemplateClock& clock = {}) const;

  bool marks_generation() const;  ///< has {% generation %} blocks
  const std::string& text() const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace reprise
