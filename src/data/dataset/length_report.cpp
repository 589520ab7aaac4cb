// Lengths are counted in steps of less than 2 %, so that a report is small for any file.
#include <reprise/data/length_report.h>

#include <bit>
#include <cmath>

namespace reprise {

namespace {

constexpr int64_t kExactLengths = 128;

int64_t rounded_up(int64_t length) {
  if (length <= kExactLengths) {
    return length;
  }
  const int64_t step =
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(length - 1))) / (kExactLengths / 2);
  return (length + step - 1) / step * step;
}

}  // namespace

void LengthReport::add(const ExampleLength& example) {
  ++examples;
  truncated += example.lost > 0 ? 1 : 0;
  tokens += example.tokens;
  lost += example.lost;
  ++lengths[rounded_up(example.longest)];
}

void LengthReport::add(const LengthReport& other) {
  examples += other.examples;
  truncated += other.truncated;
  tokens += other.tokens;
  lost += other.lost;
  for (const auto& [length, count] : other.lengths) {
    lengths[length] += count;
  }
}

int64_t LengthReport::length_for(double share) const {
  const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(examples)));
  int64_t found = 0;
  for (const auto& [length, count] : lengths) {
    found += count;
    if (found >= wanted) {
      return length;
    }
  }
  return lengths.empty() ? 0 : lengths.rbegin()->first;
}

Json LengthReport::to_json() const {
  Json counts = Json::array();
  for (const auto& [length, count] : lengths) {
    counts.push_back({length, count});
  }
  return {{"examples", examples},
          {"truncated", truncated},
          {"tokens", tokens},
          {"lost", lost},
          {"lengths", std::move(counts)}};
}

LengthReport LengthReport::from_json(const Json& json) {
  LengthReport report{.examples = json.at("examples").get<int64_t>(),
                      .truncated = json.at("truncated").get<int64_t>(),
                      .tokens = json.at("tokens").get<int64_t>(),
                      .lost = json.at("lost").get<int64_t>(),
                      .lengths = {}};
  for (const Json& count : json.at("lengths")) {
    report.lengths[count.at(0).get<int64_t>()] = count.at(1).get<int64_t>();
  }
  return report;
}

}  // namespace reprise
