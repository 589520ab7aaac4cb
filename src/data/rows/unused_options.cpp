// Options that would be ignored are refused, since the user expects them to work. Names of keys are
// the easiest to get wrong, because a row can often be read without them.
#include "data/rows/unused_options.h"

#include <c10/util/Exception.h>

namespace reprise::data {
namespace {

/// Whether an optional key would be read if the row had it.
bool would_be_read(const std::string& role, const RowKind& kind, const RowOptions& options) {
  if (role == "tools" || role == "chat_template_kwargs") {
    return kind.is_chat;
  }
  return role == "margin" && options.objective == Objective::Rm;
}

}  // namespace

void refuse_unused_options(const RowFields& row, const RowKind& kind, const RowOptions& options) {
  TORCH_CHECK(options.input_template.empty() || kind.has_text_prompt,
              "input_template applies to plain-text prompts, and this row has none: ",
              kind.convention);
  TORCH_CHECK(options.chat_template.empty() || kind.is_chat,
              "chat_template is for chats, and this row is text: ",
              kind.convention);
  for (const std::string& role : row.unread()) {
    TORCH_CHECK(would_be_read(role, kind, options),
                role,
                "_key has no effect: ",
                row.name(role),
                " is not read from this row, which is ",
                kind.convention,
                "; correct the name, or remove the option");
  }
}

}  // namespace reprise::data
