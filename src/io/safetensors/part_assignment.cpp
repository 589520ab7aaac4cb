#include "io/safetensors/part_assignment.h"

#include "io/safetensors/safetensors_write.h"

#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace reprise::io {
namespace {

/// A range of elements of a tensor, in the form that processes exchange.
struct Range {
  int64_t tensor = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

/// A part of this process, and the range that it tells the others.
struct OwnPart {
  Range range;
  const TensorPart* part;
};

std::vector<OwnPart> own_parts(const std::vector<TensorInfo>& tensors,
                               const std::vector<TensorPart>& parts) {
  std::unordered_map<std::string_view, int64_t> numbers;
  for (size_t i = 0; i < tensors.size(); ++i) {
    numbers.emplace(tensors[i].name, static_cast<int64_t>(i));
  }
  std::vector<OwnPart> own;
  for (const TensorPart& part : parts) {
    if (!part.values.defined() || part.values.numel() == 0) {
      continue;
    }
    const auto number = numbers.find(part.name);
    TORCH_CHECK(
        number != numbers.end() && tensors[static_cast<size_t>(number->second)].shape == part.shape,
        "[safetensors] a part of \"",
        part.name,
        "\" ",
        at::IntArrayRef(part.shape),
        ": there is no such tensor to be written");
    own.push_back({{number->second, part.begin, part.values.numel()}, &part});
  }
  return own;
}

/// Starts with a digest of what must be the same in all processes.
std::string message_of(const std::vector<TensorInfo>& tensors, const std::vector<OwnPart>& own) {
  const auto digest = static_cast<uint64_t>(std::hash<std::string>()(layout_of(tensors, {}).head));
  std::string text(sizeof(digest), '\0');
  std::memcpy(text.data(), &digest, sizeof(digest));
  for (const OwnPart& each : own) {
    text.append(reinterpret_cast<const char*>(&each.range), sizeof(Range));
  }
  return text;
}

std::vector<Range> ranges_in(const std::string& message, const std::string& own) {
  constexpr size_t kDigest = sizeof(uint64_t);
  TORCH_CHECK(message.size() >= kDigest && message.compare(0, kDigest, own, 0, kDigest) == 0,
              "[safetensors] processes are about to write different tensors: was the same model "
              "made in all of them?");
  std::vector<Range> ranges((message.size() - kDigest) / sizeof(Range));
  std::memcpy(ranges.data(), message.data() + kDigest, ranges.size() * sizeof(Range));
  return ranges;
}

/// The lowest rank that has a range, by begin and count.
using Owners = std::map<std::pair<int64_t, int64_t>, int64_t>;

void check_cover(const TensorInfo& tensor, const Owners& owners) {
  int64_t reached = 0;
  for (const auto& [range, rank] : owners) {
    TORCH_CHECK(range.first == reached,
                "[safetensors] tensor \"",
                tensor.name,
                "\": the processes' parts of it ",
                range.first < reached ? "overlap" : "leave a gap",
                " at element ",
                std::min(range.first, reached));
    reached += range.second;
  }
  const int64_t whole = c10::multiply_integers(tensor.shape);
  TORCH_CHECK(reached == whole,
              "[safetensors] tensor \"",
              tensor.name,
              "\": expected ",
              whole,
              " elements in the processes' parts of it, found ",
              reached);
}

}  // namespace

std::vector<AssignedPart> assign_parts(const World& world,
                                       const std::vector<TensorInfo>& tensors,
                                       const std::vector<TensorPart>& parts) {
  std::vector<OwnPart> own;
  std::string message;
  world.run_on_all("looking at parts of tensors", [&] {
    own = own_parts(tensors, parts);
    message = message_of(tensors, own);
  });
  const auto messages = world.all_gather(message, "parts of tensors");
  std::vector<Owners> owners(tensors.size());
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    for (const Range& range : ranges_in(messages[rank], message)) {
      owners.at(static_cast<size_t>(range.tensor))
          .emplace(std::pair(range.begin, range.count), static_cast<int64_t>(rank));
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_cover(tensors[i], owners[i]);
  }
  std::vector<AssignedPart> shares;
  for (const auto& [range, part] : own) {
    const auto number = static_cast<size_t>(range.tensor);
    if (owners[number].at({range.begin, range.count}) == world.rank()) {
      shares.push_back({number, part});
    }
  }
  return shares;
}

}  // namespace reprise::io
