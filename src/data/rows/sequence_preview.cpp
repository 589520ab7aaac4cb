// sequence_preview(): lets the user check that the right tokens are trained on.
#include <reprise/data/rows.h>

#include <c10/util/Exception.h>

#include <sstream>

namespace reprise {
namespace {

/// The text of the ids from `begin` to `end`, as the difference of two decoded prefixes: decoding
/// the ids alone may lose text between tokens, such as the space before a word.
std::string text_of(const Tokenizer& tokenizer,
                    const TokenSequence& sequence,
                    size_t begin,
                    size_t end) {
  const std::span<const int64_t> ids(sequence.ids);
  const std::string before = tokenizer.decode(ids.first(begin));
  const std::string until = tokenizer.decode(ids.first(end));
  return until.compare(0, before.size(), before) == 0
             ? until.substr(before.size())
             : tokenizer.decode(ids.subspan(begin, end - begin));
}

enum class Kind : uint8_t { Ignored, Trained, Scored };

Kind kind_at(const TokenSequence& sequence, size_t i) {
  if (sequence.labels[i] == kIgnoredLabel) {
    return Kind::Ignored;
  }
  const bool is_itself = sequence.labels[i] == sequence.ids[i] && sequence.soft_labels.empty();
  return is_itself ? Kind::Trained : Kind::Scored;
}

/// The end of a run of tokens of one kind; a scored token is a run of its own.
size_t run_end(const TokenSequence& sequence, size_t begin) {
  const Kind kind = kind_at(sequence, begin);
  size_t end = begin + 1;
  while (kind != Kind::Scored && end < sequence.ids.size() && kind_at(sequence, end) == kind) {
    ++end;
  }
  return end;
}

}  // namespace

std::string sequence_preview(const Tokenizer& tokenizer, const TokenSequence& sequence) {
  TORCH_CHECK(sequence.labels.size() == sequence.ids.size(),
              "[rows] a sequence has ",
              sequence.ids.size(),
              " ids and ",
              sequence.labels.size(),
              " labels");
  std::ostringstream shown;
  for (size_t begin = 0, end = 0; begin < sequence.ids.size(); begin = end) {
    end = run_end(sequence, begin);
    const Kind kind = kind_at(sequence, begin);
    const std::string text = text_of(tokenizer, sequence, begin, end);
    if (kind == Kind::Ignored) {
      shown << text;
    } else if (kind == Kind::Trained) {
      shown << "[[" << text << "]]";
    } else if (sequence.soft_labels.empty()) {
      shown << "[[" << text << " -> " << sequence.labels[begin] << "]]";
    } else {
      shown << "[[" << text << " -> " << sequence.soft_labels[begin] << "]]";
    }
  }
  return shown.str();
}

}  // namespace reprise
