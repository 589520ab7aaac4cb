// view_prompts(): reads, parses and tokenises a row when its prompt is requested.
#include "data/prompts/prompt_set.h"

#include "data/files/row_reader.h"

#include <c10/util/Exception.h>

#include <utility>

namespace reprise {

PromptSet::~PromptSet() = default;

namespace data {
namespace {

class SpilledPromptSet final : public PromptSet {
 public:
  explicit SpilledPromptSet(SpilledPrompts prompts) : prompts_(std::move(prompts)) {}

  int64_t size() const override { return static_cast<int64_t>(prompts_.rows.size()); }

  Prompt at(int64_t index) const override {
    Json json = row(index);
    const SpilledRow& location = spilled(index);
    PromptRow read = prompts_.encoder.read(json);
    PromptEncoder::Encoded encoded = prompts_.encoder.encode(read);
    return {.ids = std::move(encoded.ids),
            .text = std::move(encoded.text),
            .messages = std::move(read.prompt.messages.get_ref<Json::array_t&>()),
            .row = std::move(json),
            .location = {.file = location.file, .line = location.line}};
  }

  Json row(int64_t index) const override {
    const SpilledRow& location = spilled(index);
    return RowText{.line = location.line,
                   .text = prompts_.texts.read(location.offset, location.bytes)}
        .parse();
  }

  std::string location_name(const RowLocation& location) const override {
    TORCH_CHECK(location.file >= 0 && location.file < static_cast<int64_t>(prompts_.names.size()),
                "[data] expected one of ",
                prompts_.names.size(),
                " files, found ",
                location.file);
    return prompts_.names[static_cast<size_t>(location.file)] + ":" + std::to_string(location.line);
  }

  const PromptReport& report() const override { return prompts_.report; }

 private:
  const SpilledRow& spilled(int64_t index) const {
    TORCH_CHECK(index >= 0 && index < size(),
                "[data] expected a prompt in [0, ",
                size(),
                "), found ",
                index);
    return prompts_.rows[static_cast<size_t>(index)];
  }

  SpilledPrompts prompts_;
};

}  // namespace

std::shared_ptr<const PromptSet> view_prompts(SpilledPrompts prompts) {
  return std::make_shared<SpilledPromptSet>(std::move(prompts));
}

}  // namespace data
}  // namespace reprise
