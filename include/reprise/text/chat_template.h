// Chat templates: the Jinja text that turns messages into the string a model was trained on.
//
// The renderer gives what Python's jinja2 gives as transformers sets it up (trim_blocks,
// lstrip_blocks, loop controls, sandboxed, `tojson` without HTML escapes). A template is foreign
// code: nesting, steps and output are bounded, and it can reach nothing but its variables.
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

struct TemplateLimits {
  size_t max_text = size_t{256} << 10;  ///< bytes of the template itself
  size_t max_depth = 256;               ///< nested expressions, blocks, macro calls and values
  size_t max_steps = 10'000'000;        ///< nodes evaluated and items looked at
  size_t max_output = size_t{64} << 20;
  size_t max_allocated = size_t{1} << 30;  ///< bytes of all intermediate values together
};

/// What strftime_now() takes for the time; local time unless another is given.
using TemplateClock = std::function<std::tm()>;

/// Half-open byte ranges of a rendered text.
using ByteRanges = std::vector<std::pair<size_t, size_t>>;

struct RenderedChat {
  std::string text;
  ByteRanges generated;  ///< what stood inside {% generation %}: the assistant's own words
};

class REPRISE_API ChatTemplate {
 public:
  /// Parses. Throws c10::Error with `source`, line and what is wrong.
  explicit ChatTemplate(std::string_view text,
                        const std::string& source = "chat template",
                        const TemplateLimits& limits = {});

  /// Renders with these variables (an object: messages, tools, add_generation_prompt, bos_token,
  /// ...). Throws c10::Error with the template's own message for raise_exception.
  RenderedChat render(const Json& variables, const TemplateClock& clock = {}) const;

  bool marks_generation() const;  ///< has {% generation %} blocks
  const std::string& text() const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace reprise
