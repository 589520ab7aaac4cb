// Two classes cover all kinds: verifiers that compare with a column, and verifiers that look at the
// completion only. Kinds differ by a function.
#include <reprise/reward/verifiers.h>

#include "reward/answer_column.h"
#include "reward/latex_answer.h"
#include "reward/verifier_spec.h"
#include "reward/written_number.h"
#include "text/unicode/regex.h"
#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace reprise {
namespace {

using reward::VerifierSpec;

constexpr double kCannotScore = std::numeric_limits<double>::quiet_NaN();

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  const size_t end = text.find_last_not_of(kSpace) + 1;  // npos + 1 is 0
  return text.substr(begin, std::max(begin, end) - begin);
}

/// Whether a completion has this answer. Throws if no completion could have it.
using HasAnswer = std::function<bool(std::string_view completion, const std::string& answer)>;

class AnswerVerifier final : public RewardSource {
 public:
  AnswerVerifier(const VerifierSpec& spec, HasAnswer has_answer)
      : name_(spec.text("name", spec.kind())),
        column_(spec.text("answer", "")),
        has_answer_(std::move(has_answer)) {}

  std::string name() const override { return name_; }

  void check(const Json& row) const override { score_one("", row); }

  std::vector<double> score(std::span<const RewardRequest> requests) override {
    static const Json kNoColumns = Json::object();
    std::vector<double> rewards;
    rewards.reserve(requests.size());
    for (const RewardRequest& request : requests) {
      rewards.push_back(score_one(request.completion, request.row ? *request.row : kNoColumns));
    }
    return rewards;
  }

 private:
  double score_one(std::string_view completion, const Json& row) const {
    try {
      const auto answer = reward::answer_text(row, column_);
      return !answer ? kCannotScore : has_answer_(completion, *answer) ? 1 : 0;
    } catch (const c10::Error& error) {
      TORCH_CHECK(false, "[reward] ", name_, ": ", error.what_without_backtrace());
    }
  }

  std::string name_, column_;
  HasAnswer has_answer_;
};

using ScoreText = std::function<double(const RewardRequest& request)>;

class TextVerifier final : public RewardSource {
 public:
  TextVerifier(const VerifierSpec& spec, ScoreText score_text)
      : name_(spec.text("name", spec.kind())), score_text_(std::move(score_text)) {}

  std::string name() const override { return name_; }

  std::vector<double> score(std::span<const RewardRequest> requests) override {
    std::vector<double> rewards;
    rewards.reserve(requests.size());
    std::transform(requests.begin(), requests.end(), std::back_inserter(rewards), score_text_);
    return rewards;
  }

 private:
  std::string name_;
  ScoreText score_text_;
};

bool is_exact_match(std::string_view completion, const std::string& answer) {
  return trimmed(completion) == trimmed(answer);
}

/// The part after the last ####, which separates the number from the reasoning in GSM8K.
std::string_view final_part(std::string_view answer) {
  const size_t mark = answer.rfind("####");
  return mark == std::string_view::npos ? answer : answer.substr(mark + 4);
}

bool has_last_number(std::string_view completion, const std::string& answer) {
  const auto expected = reward::last_number(final_part(answer));
  TORCH_CHECK(expected, "the answer \"", answer.substr(0, 200), "\" has no number to compare with");
  const auto found = reward::last_number(completion);
  return found && reward::have_same_value(*found, *expected);
}

bool has_boxed(std::string_view completion, const std::string& answer) {
  const auto found = reward::boxed_content(completion);
  const auto expected = reward::boxed_content(answer);
  return found && reward::are_same_latex(*found, expected ? *expected : final_part(answer));
}

ScoreText regex_score(const VerifierSpec& spec) {
  // Messages of text::Regex are tagged for tokenizers; the tag is replaced.
  const auto compiled = [&] {
    try {
      return text::Regex(spec.required("pattern"), "the pattern of a regex verifier");
    } catch (const c10::Error& error) {
      const std::string message = error.what_without_backtrace();
      TORCH_CHECK(false, "[reward] ", message.substr(message.find("] ") + 2));
    }
  };
  return [regex = compiled()](const RewardRequest& request) -> double {
    try {
      return regex.find_all(text::replace_invalid_utf8(request.completion)).empty() ? 0 : 1;
    } catch (const c10::Error&) {  // too many steps
      return kCannotScore;
    }
  };
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Whether `text` consists of the tags in order, each once, with only white space between them.
bool has_format(std::string_view text, const std::vector<std::string>& tags, bool text_after) {
  text = trimmed(text);
  const std::string_view whole = text;
  for (const std::string& tag : tags) {
    const std::string open = "<" + tag + ">";
    const std::string close = "</" + tag + ">";
    const size_t end = text.find(close);
    if (!text.starts_with(open) || end == std::string_view::npos ||
        whole.rfind(open) != whole.find(open) || whole.rfind(close) != whole.find(close)) {
      return false;
    }
    text = trimmed(text.substr(end + close.size()));
  }
  return text_after || text.empty();
}

ScoreText format_score(const VerifierSpec& spec) {
  auto tags = split(spec.text("tags", "think+answer"), '+');
  for (const std::string& tag : tags) {
    TORCH_CHECK(!tag.empty() && tag.find_first_of("<>/ ") == std::string::npos &&
                    std::count(tags.begin(), tags.end(), tag) == 1,
                "[reward] format: tags= must be different names such as think+answer");
  }
  return [tags = std::move(tags), text_after = spec.yes_or_no("text_after", false)](
             const RewardRequest& request) -> double {
    return has_format(request.completion, tags, text_after) ? 1 : 0;
  };
}

ScoreText length_score(const VerifierSpec& spec) {
  spec.required("limit");
  const double limit = spec.number("limit", 0);
  const double range = spec.number("range", limit);
  const double penalty = spec.number("penalty", 1);
  return [=](const RewardRequest& request) {
    const double over = std::max(0.0, static_cast<double>(request.tokens) - limit);
    return over == 0 ? 0.0 : -penalty * std::min(1.0, over / range);
  };
}

template <HasAnswer::result_type (*has_answer)(std::string_view, const std::string&)>
std::unique_ptr<RewardSource> answer_verifier(const VerifierSpec& spec) {
  return std::make_unique<AnswerVerifier>(spec, has_answer);
}

template <ScoreText (*make_score)(const VerifierSpec&)>
std::unique_ptr<RewardSource> text_verifier(const VerifierSpec& spec) {
  return std::make_unique<TextVerifier>(spec, make_score(spec));
}

struct Kind {
  std::string name;
  std::vector<std::string> keys;
  std::unique_ptr<RewardSource> (*make)(const VerifierSpec& spec);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"exact_match", {"name", "answer"}, answer_verifier<is_exact_match>},
      {"last_number", {"name", "answer"}, answer_verifier<has_last_number>},
      {"boxed", {"name", "answer"}, answer_verifier<has_boxed>},
      {"regex", {"name", "pattern"}, text_verifier<regex_score>},
      {"format", {"name", "tags", "text_after"}, text_verifier<format_score>},
      {"length", {"name", "limit", "range", "penalty"}, text_verifier<length_score>}};
  return all;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) {
    names.push_back(kind.name);
  }
  return names;
}

}  // namespace

std::unique_ptr<RewardSource> make_verifier(std::string_view spec) {
  const VerifierSpec parsed(spec);
  for (const Kind& kind : kinds()) {
    if (kind.name == parsed.kind()) {
      parsed.allow_only(kind.keys);
      return kind.make(parsed);
    }
  }
  TORCH_CHECK(false,
              "[reward] a verifier must be one of ",
              c10::Join(", ", kind_names()),
              "; found \"",
              parsed.kind(),
              "\"");
}

}  // namespace reprise
