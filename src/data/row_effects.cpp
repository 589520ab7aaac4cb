// An option that would be ignored is refused: who gave it counts on it. Names of keys are the most
// easily mistaken ones, since a row may well be read without the key that was meant.
#include "data/row_effects.h"

#include <c10/util/Exception.h>

namespace reprise::detail {
namespace {

/// Keys that rows may leave out without being of another kind.
bool would_be_read(const std::string& role, const RowKind& kind, const RowOptions& options) {
  if (role == "tools" || role == "chat_template_kwargs") {
    return kind.is_chat;
  }
  return role == "margin" && options.objective == Objective::Rm;
}

}  // namespace

void check_row_effects(const RowFields& row, const RowKind& kind, const RowOptions& options) {
  TORCH_CHECK(options.input_template.empty() || kind.has_text_prompt,
              "input_template is put around prompts that are text, and this row has none: ",
              kind.convention);
  TORCH_CHECK(options.chat_template.empty() || kind.is_chat,
              "chat_template is for chats, and this row is text: ",
              kind.convention);
  for (const std::string& role : row.unread()) {
    TORCH_CHECK(would_be_read(role, kind, options),
                role,
                "_key has no effect: nothing called ",
                row.name(role),
                " is read of this row, which is ",
                kind.convention,
                "; correct the name, or leave it out");
  }
}

}  // namespace reprise::detail
