// Splits pieces. The five behaviors combine alternating matches and gaps in different ways.
#include "text/tokenizer/pre_tokenized.h"

#include "text/unicode/utf8.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace reprise::text {
namespace {

struct Part {
  size_t begin, end;
  bool is_match;
};

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

std::vector<Part> joined_by(std::vector<Part> parts, SplitBehavior behavior) {
  const auto starts_match = [](bool previous, bool next) { return next && !previous; };
  switch (behavior) {
    case SplitBehavior::Isolated:
    case SplitBehavior::Removed:
      break;  // join nothing
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

/// These pieces alone, with their part of the text.
PreTokenized PreTokenized::group(std::vector<Piece> of_it) const {
  const size_t begin = of_it.front().begin;
  PreTokenized result;
  result.text = text.part(begin, of_it.back().end);
  for (Piece& piece : of_it) {
    piece.begin -= begin;
    piece.end -= begin;
  }
  result.pieces = std::move(of_it);
  return result;
}

bool PreTokenized::hand_out(const PieceGroups& groups) {
  if (text.text().size() <= groups.bytes) {
    return groups.use(*this);
  }
  for (auto first = pieces.begin(); first != pieces.end();) {
    auto last = std::next(first);
    while (last != pieces.end() && last->end - first->begin <= groups.bytes) {
      ++last;
    }
    PreTokenized part = group({first, last});
    if (!groups.use(part)) {
      return false;
    }
    first = last;
  }
  return true;
}

bool PreTokenized::split(const Find& find,
                         SplitBehavior behavior,
                         const PieceGroups& groups,
                         bool invert) {
  const bool removes = behavior == SplitBehavior::Removed;
  const bool joins = !removes && behavior != SplitBehavior::Isolated;
  std::vector<Piece> found;  // since the last group
  std::vector<Part> to_join;
  bool wants_more = true;
  bool is_first_group = true;
  const auto add = [&](const Piece& piece) {
    found.push_back(piece);
    if (piece.end - found.front().begin > groups.bytes) {
      PreTokenized part = group(std::exchange(found, {}));
      wants_more = groups.use(part);
      is_first_group = false;
    }
    return wants_more;
  };
  for (size_t i = 0; i < pieces.size() && wants_more; ++i) {
    const Piece piece = pieces[i];
    if (piece.is_token()) {
      add(piece);
      continue;
    }
    const auto keep = [&](const Part& part) {
      const bool is_left = part.begin < part.end && !(removes && part.is_match);
      return is_left ? add({piece.begin + part.begin, piece.begin + part.end}) : wants_more;
    };
    // Parts are listed only if they have to be joined: a text may be long.
    const auto take = [&](const Part& part) {
      if (joins) {
        to_join.push_back(part);
        return true;
      }
      return keep(part);
    };
    const std::string_view inside = view(piece);
    size_t done = 0;
    find(inside, [&](size_t begin, size_t end) {
      const bool goes_on = wants_more && (done == begin || take({done, begin, invert}));
      done = end;
      return goes_on && take({begin, end, !invert});
    });
    if (done != inside.size() && wants_more) {
      take({done, inside.size(), invert});
    }
    for (const Part& part : joined_by(std::exchange(to_join, {}), behavior)) {
      if (!keep(part)) {
        break;
      }
    }
  }
  if (is_first_group) {  // as for most texts
    pieces = std::move(found);
    return groups.use(*this);
  }
  if (!wants_more || found.empty()) {
    return wants_more;
  }
  PreTokenized part = group(std::move(found));
  return groups.use(part);
}

bool PreTokenized::split_characters(const std::function<bool(char32_t)>& fits,
                                    SplitBehavior behavior,
                                    const PieceGroups& groups) {
  const auto find = [&](std::string_view inside, const VisitRange& visit) {
    for (size_t at = 0; at < inside.size();) {
      const size_t begin = at;
      if (fits(next_code_point(inside, at)) && !visit(begin, at)) {
        return;
      }
    }
  };
  return split(find, behavior, groups);
}

bool PreTokenized::rewrite(
    const std::function<void(NormalizedString& to, const Piece& piece)>& write,
    const PieceGroups& groups) {
  NormalizedString rewritten = text.empty_copy();
  if (!groups.needs_origins) {
    rewritten.stop_tracking();
  }
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
  return hand_out(groups);
}

}  // namespace reprise::text
