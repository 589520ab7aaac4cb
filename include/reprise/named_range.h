// Names for ranges of a region's code, so that a policy can decide about one matrix product and not
// about another without counting calls:
//
//   reprise::checkpoint({.policy = reprise::policy::save_named({"scores"})}, [=](at::Tensor h) {
//     const auto scores = [&] {
//       const reprise::NamedRange range("scores");
//       return torch::softmax(torch::mm(h, h.t()), -1);
//     }();
//     return torch::mm(scores, h);
//   }, x);
#pragma once

#include <reprise/export.h>

#include <string>

namespace reprise {

namespace detail {
struct NamedRanges;
}  // namespace detail

/// In its scope, the operators of this thread belong to the range `name`. Ranges nest: an operator
/// belongs to all ranges around it, whose names OpContext::range joins by "/". A region begins
/// without ranges: what is opened around it names nothing inside. Without a policy, a range costs
/// some nanoseconds and has no effect.
class REPRISE_API NamedRange {
 public:
  explicit NamedRange(std::string name);
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;

 private:
  friend struct detail::NamedRanges;
  const std::string name_;
  NamedRange* const outer_;
  std::string path_;  // once a policy has asked for it
};

}  // namespace reprise
