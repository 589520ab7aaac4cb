// ChatTemplate: the public interface of the renderer, with limits, errors and byte ranges.
#include <reprise/jinja/chat_template.h>

#include "jinja/evaluator.h"
#include "jinja/syntax/parser.h"
#include "jinja/values/json.h"
#include "jinja/values/unicode.h"
#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <ctime>

namespace reprise {
namespace {

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm result{};
  localtime_r(&now, &result);
  return result;
}

// transformers counts characters from a position in the output of the template.
ByteRanges to_byte_ranges(const std::string& text, const std::vector<jinja::GeneratedPart>& parts) {
  ByteRanges ranges;
  ranges.reserve(parts.size());
  for (const auto& part : parts) {
    const size_t start = std::min(part.start_byte, text.size());
    const std::string_view rest = std::string_view(text).substr(start);
    ranges.emplace_back(start, start + jinja::byte_offset(rest, part.characters));
  }
  return ranges;
}

}  // namespace

struct ChatTemplate::Program {
  std::string text;
  std::string source;
  TemplateLimits limits;
  jinja::Template tree;
};

ChatTemplate::ChatTemplate(std::string_view text,
                           const std::string& source,
                           const TemplateLimits& limits) {
  auto program = std::make_shared<Program>();
  program->text = text;
  program->source = source;
  program->limits = limits;
  TORCH_CHECK(text.size() <= limits.max_text,
              "[chat template] ",
              source,
              ": expected at most ",
              limits.max_text,
              " bytes (TemplateLimits::max_text), found ",
              text.size());
  const size_t valid = text::valid_utf8_prefix(text);
  TORCH_CHECK(valid == text.size(),
              "[chat template] ",
              source,
              ": expected UTF-8, found another byte sequence at byte ",
              valid);
  try {
    program->tree = jinja::parse(text, limits.max_depth);
  } catch (const jinja::Failure& failure) {
    TORCH_CHECK(false, "[chat template] ", source, ": line ", failure.line, ": ", failure.what());
  }
  program_ = std::move(program);
}

RenderedChat ChatTemplate::render(const Json& variables, const TemplateClock& clock) const {
  TORCH_CHECK(variables.is_object(),
              "[chat template] ",
              program_->source,
              ": expected the variables as an object, found ",
              variables.type_name());
  jinja::Runtime runtime(program_->limits, clock ? clock : TemplateClock(local_time));
  std::optional<jinja::Evaluator> evaluator;
  try {
    evaluator.emplace(runtime, jinja::from_json(runtime, variables));
    evaluator->render(program_->tree);
  } catch (const jinja::Failure& failure) {
    TORCH_CHECK(false,
                "[chat template] ",
                program_->source,
                ": line ",
                evaluator ? evaluator->line() : 1,
                ": ",
                failure.what());
  }
  RenderedChat rendered;
  rendered.text = evaluator->take_output();
  rendered.generated = to_byte_ranges(rendered.text, evaluator->generated());
  rendered.used = runtime.used();
  return rendered;
}

bool ChatTemplate::marks_generation() const {
  return program_->tree.marks_generation;
}

const std::string& ChatTemplate::text() const {
  return program_->text;
}

}  // namespace reprise
