// parse_data_files(): the user's list of data files with weights.
#include <reprise/data/dataset.h>

#include <c10/util/Exception.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

namespace reprise {
namespace {

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

/// A colon that is not followed by a number belongs to the file name.
DataFile parse_data_file(std::string_view text) {
  const size_t colon = text.rfind(':');
  const auto weight =
      colon == std::string_view::npos ? std::nullopt : number_of(text.substr(colon + 1));
  DataFile file{.path = text.substr(0, weight ? colon : text.size()), .weight = 0};
  TORCH_CHECK(
      !file.path.empty(), "[data] expected the name of a file, found \"", std::string(text), "\"");
  if (weight) {
    TORCH_CHECK(std::isfinite(*weight) && *weight > 0,
                "[data] ",
                std::string(text),
                ": expected a weight above 0, found ",
                *weight);
    file.weight = *weight;
  }
  return file;
}

}  // namespace

std::vector<DataFile> parse_data_files(const std::string& text) {
  std::vector<DataFile> files;
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    files.push_back(parse_data_file(rest.substr(0, comma)));
    if (comma == std::string_view::npos) {
      TORCH_CHECK(files.size() > 1 || files.front().weight == 0,
                  "[data] ",
                  text,
                  ": the weight of a single file has no effect; weights are shares of a mixture");
      return files;
    }
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace reprise
