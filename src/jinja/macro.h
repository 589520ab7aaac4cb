// A macro, or the body of a {% call %} block, as a value that can be called.
#pragma once

#include "jinja/evaluator.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::jinja {

class MacroFunction final : public Object {
 public:
  MacroFunction(Evaluator& evaluator,
                const MacroDefinition& definition,
                std::shared_ptr<Frame> frame)
      : evaluator_(evaluator), definition_(definition), frame_(std::move(frame)) {}

  std::string type_name() const override { return "Macro"; }
  void write_repr(Runtime& runtime, TextBuilder& out) override;
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override;
  void release() override { frame_.reset(); }

 private:
  MacroArguments bind(Runtime& runtime, const Arguments& arguments) const;

  Evaluator& evaluator_;
  const MacroDefinition& definition_;
  std::shared_ptr<Frame> frame_;  ///< where it was defined
};

}  // namespace reprise::jinja
