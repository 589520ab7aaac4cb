// Splits pieces. The five behaviors combine alternating matches and gaps in different ways.
#include "text/tokenizer/pre_tokenized.h"

#include "text/unicode/utf8.h"

#include <algorithm>
#include <utility>

namespace reprise::text {
namespace {

struct Part {
  size_t begin, end;
  bool is_match;
};

std::vector<Part> parts_of(const Ranges& matches, size_t size, bool invert) {
  std::vector<Part> parts;
  parts.reserve(2 * matches.size() + 1);
  size_t done = 0;
  for (const auto& [begin, end] : matches) {
    if (done != begin) {
      parts.push_back({done, begin, invert});
    }
    parts.push_back({begin, end, !invert});
    done = end;
  }
  if (done != size) {
    parts.push_back({done, size, invert});
  }
  return parts;
}

/// Joins adjacent parts for which `joins(previous_is_match, next_is_match)` is true.
template <typename Joins>
std::vector<Part> joined(const std::vector<Part>& parts, Joins joins) {
  std::vector<Part> result;
  bool previous = false;
  for (const Part& part : parts) {
    if (!result.empty() && joins(previous, part.is_match)) {
      result.back().begin = std::min(result.back().begin, part.begin);
      result.back().end = std::max(result.back().end, part.end);
    } else {
      result.push_back(part);
    }
    previous = part.is_match;
  }
  return result;
}

std::vector<Part> behave(std::vector<Part> parts, SplitBehavior behavior) {
  const auto starts_match = [](bool previous, bool next) { return next && !previous; };
  switch (behavior) {
    case SplitBehavior::Isolated:
      return parts;
    case SplitBehavior::Removed:
      std::erase_if(parts, [](const Part& part) { return part.is_match; });
      return parts;
    case SplitBehavior::Contiguous:
      return joined(parts, [](bool previous, bool next) { return previous == next; });
    case SplitBehavior::MergedWithPrevious:
      return joined(parts, starts_match);
    case SplitBehavior::MergedWithNext:
      std::reverse(parts.begin(), parts.end());
      parts = joined(parts, starts_match);
      std::reverse(parts.begin(), parts.end());
      return parts;
  }
  return parts;
}

}  // namespace

void PreTokenized::split(const std::function<Ranges(std::string_view)>& find,
                         SplitBehavior behavior,
                         bool invert) {
  std::vector<Piece> result;
  result.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    if (piece.is_token()) {
      result.push_back(piece);
      continue;
    }
    const std::string_view inside = view(piece);
    for (const Part& part : behave(parts_of(find(inside), inside.size(), invert), behavior)) {
      if (part.begin < part.end) {
        result.push_back({piece.begin + part.begin, piece.begin + part.end});
      }
    }
  }
  pieces = std::move(result);
}

void PreTokenized::split_characters(const std::function<bool(char32_t)>& fits,
                                    SplitBehavior behavior) {
  split(
      [&](std::string_view inside) {
        Ranges matches;
        for (size_t at = 0; at < inside.size();) {
          const size_t begin = at;
          if (fits(next_code_point(inside, at))) {
            matches.emplace_back(begin, at);
          }
        }
        return matches;
      },
      behavior);
}

void PreTokenized::rewrite(
    const std::function<void(NormalizedString& to, const Piece& piece)>& write) {
  NormalizedString rewritten = text.empty_copy();
  rewritten.reserve(text.text().size() + text.text().size() / 2);
  std::vector<Piece> result;
  result.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const size_t begin = rewritten.text().size();
    if (piece.is_token()) {
      rewritten.append(text, piece.begin, piece.end);
    } else {
      write(rewritten, piece);
      check_growth(text.original_size(), rewritten.text().size());
    }
    if (rewritten.text().size() > begin) {
      result.push_back({begin, rewritten.text().size(), piece.token});
    }
  }
  text = std::move(rewritten);
  pieces = std::move(result);
}

}  // namespace reprise::text
