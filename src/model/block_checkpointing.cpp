#include <reprise/model/block_checkpointing.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>
#include <utility>

namespace reprise {

namespace {

constexpr int64_t kMostBlocks = 100'000;  // in a range; more than any model has

template <class Number>
Number parse_number(std::string_view text, const std::string& whole) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  TORCH_CHECK(error == std::errc() && end == text.data() + text.size(),
              "[checkpointing] \"",
              whole,
              "\": \"",
              text,
              "\" is not a number.");
  return number;
}

// "0-7,12"
std::vector<int64_t> parse_list(std::string_view text, const std::string& whole) {
  std::vector<int64_t> numbers;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const size_t dash = item.find('-');
    const auto first = parse_number<int64_t>(item.substr(0, dash), whole);
    const auto last = dash == std::string_view::npos
                          ? first
                          : parse_number<int64_t>(item.substr(dash + 1), whole);
    TORCH_CHECK(first <= last && last - first < kMostBlocks,
                "[checkpointing] \"",
                whole,
                "\": \"",
                item,
                "\" is not a range of blocks.");
    for (int64_t block = first; block <= last; ++block) {
      numbers.push_back(block);
    }
    if (comma == std::string_view::npos) {
      return numbers;
    }
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

BlockChoice::BlockChoice(Kind kind, int64_t count, double fraction, std::vector<int64_t> blocks)
    : kind_(kind), count_(count), fraction_(fraction), blocks_(std::move(blocks)) {}

BlockChoice BlockChoice::all() {
  return {Kind::All, 0, 0, {}};
}

BlockChoice BlockChoice::every(int64_t n) {
  TORCH_CHECK(n >= 1, "[checkpointing] every ", n, " blocks: expected at least 1.");
  return {Kind::Every, n, 0, {}};
}

BlockChoice BlockChoice::ratio(double fraction) {
  TORCH_CHECK(fraction > 0 && fraction <= 1,
              "[checkpointing] a ratio of ",
              fraction,
              " of the blocks: expected more than 0 (disable checkpointing to have none) and at "
              "most 1.");
  return {Kind::Ratio, 0, fraction, {}};
}

BlockChoice BlockChoice::first(int64_t k) {
  TORCH_CHECK(k >= 1, "[checkpointing] the first ", k, " blocks: expected at least 1.");
  return {Kind::First, k, 0, {}};
}

BlockChoice BlockChoice::list(std::vector<int64_t> blocks) {
  TORCH_CHECK(!blocks.empty(), "[checkpointing] the list of blocks is empty.");
  std::sort(blocks.begin(), blocks.end());
  const auto twice = std::adjacent_find(blocks.begin(), blocks.end());
  TORCH_CHECK(twice == blocks.end(), "[checkpointing] block ", *twice, " is listed twice.");
  return {Kind::List, 0, 0, std::move(blocks)};
}

BlockChoice BlockChoice::parse(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (kind == "all" && colon == std::string::npos) {
    return all();
  }
  const std::string_view amount =
      colon == std::string::npos ? std::string_view() : std::string_view(text).substr(colon + 1);
  if (kind == "every") {
    return every(parse_number<int64_t>(amount, text));
  }
  if (kind == "ratio") {
    return ratio(parse_number<double>(amount, text));
  }
  if (kind == "first") {
    return first(parse_number<int64_t>(amount, text));
  }
  if (kind == "list") {
    return list(parse_list(amount, text));
  }
  TORCH_CHECK(false,
              "[checkpointing] \"",
              text,
              "\": expected all, every:N, ratio:R, first:K or list:I,J-K,...");
}

std::vector<int64_t> BlockChoice::choose(int64_t blocks) const {
  if (kind_ == Kind::List) {
    TORCH_CHECK(blocks_.front() >= 0 && blocks_.back() < blocks,
                "[checkpointing] the model has blocks 0 to ",
                blocks - 1,
                "; ",
                describe(),
                " names one that does not exist.");
    return blocks_;
  }
  const auto count = kind_ == Kind::Ratio
                         ? static_cast<int64_t>(fraction_ * static_cast<double>(blocks))
                     : kind_ == Kind::First ? count_
                                            : blocks;
  TORCH_CHECK(
      count <= blocks, "[checkpointing] ", describe(), " of a model that has ", blocks, " blocks.");
  TORCH_CHECK(count > 0,
              "[checkpointing] ",
              describe(),
              " selects none of the ",
              blocks,
              " blocks of the model: disable checkpointing to have none.");
  const int64_t step = kind_ == Kind::Every ? count_ : 1;
  std::vector<int64_t> chosen;
  for (int64_t block = 0; block < count; ++block) {
    if (block % step == 0) {
      chosen.push_back(block);
    }
  }
  TORCH_INTERNAL_ASSERT(!chosen.empty());
  return chosen;
}

std::string BlockChoice::describe() const {
  switch (kind_) {
    case Kind::All:
      return "all blocks";
    case Kind::Every:
      return "one block in " + std::to_string(count_);
    case Kind::Ratio:
      return "a ratio of " + c10::str(fraction_) + " of the blocks";
    case Kind::First:
      return "the first " + std::to_string(count_) + " blocks";
    case Kind::List:
      break;
  }
  return c10::str("blocks ", c10::Join(",", blocks_));
}

CheckpointOptions checkpoint_options_named(const std::string& policy) {
  CheckpointOptions options;
  if (policy == "attention") {
    options.policy = policy::save_attention();
  } else if (policy == "matmuls") {
    options.policy = policy::save_matmuls(2);
  } else {
    TORCH_CHECK(policy == "full",
                "[checkpointing] the policy \"",
                policy,
                "\" is not known: expected full, attention or matmuls.");
  }
  return options;
}

}  // namespace reprise
