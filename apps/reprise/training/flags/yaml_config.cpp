// Reads YAML event by event, to check a file before anything is built from it: the depth is limited
// during parsing, and an alias, which could expand a small file enormously, is refused.
#include "reprise/training/flags/yaml_config.h"

#include <reprise/io/file_format.h>

#include <c10/util/Exception.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

namespace reprise::app {

namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr size_t kPieceBytes = size_t{1} << 13;  // more than most configurations have
constexpr size_t kMostDepth = 3;                 // the map, an object in it, a list in that

/// `where` is for numbers that no number of ours can be.
Json typed_scalar(const std::string& tag, const std::string& text, const std::string& where) {
  const bool is_plain = tag == "?";
  if (is_plain && (text == "true" || text == "false")) {
    return text == "true";
  }
  int64_t whole = 0;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [whole_end, whole_error] = std::from_chars(text.data(), end, whole);
  if (is_plain && whole_error == std::errc() && whole_end == end) {
    return whole;
  }
  const auto [number_end, error] = std::from_chars(text.data(), end, number);
  if (!is_plain || error == std::errc::invalid_argument || number_end != end) {
    return text;
  }
  TORCH_CHECK(error == std::errc() && std::isfinite(number),
              where,
              ": expected a finite number or quoted text, found ",
              text);
  return number;
}

class ConfigReader : public YAML::EventHandler {
 public:
  explicit ConfigReader(std::string file) : file_(std::move(file)) {}

  std::vector<ConfigEntry> take() { return std::move(entries_); }
  std::string location(const YAML::Mark& mark) const {
    return file_ + ":" + std::to_string(std::max(mark.line, 0) + 1);
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_anchor(mark); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(mark, Json()); }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t,
                const std::string& text) override {
    if (expects_key()) {
      key_ = text;
      key_location_ = location(mark);
    } else {
      add(mark, is_in_object() ? typed_scalar(tag, text, location(mark)) : Json(text));
    }
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string&,
                       YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    begin(mark, Json::array());
  }
  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string&,
                  YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    const bool is_in_list = !open_.empty() && open_.back().value.is_array();
    TORCH_CHECK(!is_in_list, location(mark), ": expected a value, found a map in a list");
    begin(mark, Json::object());
  }
  void OnMapEnd() override { end(); }

 private:
  struct Open {
    std::optional<std::string> key;  // its key in the enclosing map
    std::string key_location;
    Json value;
  };

  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    TORCH_CHECK(false,
                location(mark),
                ": anchors and aliases (& and *) are not supported; write the value out");
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().value.is_object() && !key_.has_value();
  }
  bool is_in_object() const { return open_.size() > 1 && open_[1].value.is_object(); }

  void begin(const YAML::Mark& mark, Json value) {
    TORCH_CHECK(!expects_key(), location(mark), ": expected a name, found a list or a map");
    TORCH_CHECK(!open_.empty() || value.is_object(),
                location(mark),
                ": expected names of flags with values, found a list");
    const bool is_in_list = !open_.empty() && open_.back().value.is_array();
    TORCH_CHECK(open_.size() < kMostDepth && !is_in_list,
                location(mark),
                ": lists and maps are nested too deeply");
    open_.push_back({std::exchange(key_, {}), key_location_, std::move(value)});
  }

  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (!open_.empty()) {
      key_ = std::move(done.key);
      key_location_ = std::move(done.key_location);
      put(std::move(done.value));
    }
  }

  void add(const YAML::Mark& mark, Json value) {
    if (open_.empty()) {  // an empty file
      TORCH_CHECK(
          value.is_null(), location(mark), ": expected names of flags with values, found text");
      return;
    }
    TORCH_CHECK(!expects_key(), location(mark), ": expected a name, found null");
    put(std::move(value));
  }

  void put(Json value) {
    if (open_.back().value.is_array()) {
      TORCH_CHECK(!value.is_null(), key_location_, ": expected values in the list, found null");
      open_.back().value.push_back(std::move(value));
      return;
    }
    const std::string key = *std::exchange(key_, {});
    if (open_.size() > 1) {
      TORCH_CHECK(
          !open_.back().value.contains(key), key_location_, ": \"", key, "\" is given twice");
      open_.back().value[key] = std::move(value);
      return;
    }
    entries_.push_back({key, std::move(value), key_location_ + ": " + key});
  }

  std::string file_;
  std::vector<Open> open_;
  std::optional<std::string> key_;  // a key whose value has not been read yet
  std::string key_location_;
  std::vector<ConfigEntry> entries_;
};

std::string read_bounded(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(
      file && !std::filesystem::is_directory(path), "--config ", path.string(), ": cannot be read");
  std::string text;
  while (file && text.size() <= kMostBytes) {
    const size_t before = text.size();
    text.resize(before + kPieceBytes);
    file.read(text.data() + before, kPieceBytes);
    text.resize(before + static_cast<size_t>(file.gcount()));
  }
  TORCH_CHECK(text.size() <= kMostBytes, path.string(), ": a config file has at most 1 MiB");
  const auto foreign = foreign_text(text, path);
  TORCH_CHECK(foreign.empty(), path.string(), ": ", foreign);
  return text;
}

}  // namespace

std::vector<ConfigEntry> read_yaml_config(const std::filesystem::path& path) {
  std::istringstream text(read_bounded(path));
  ConfigReader reader(path.string());
  try {
    YAML::Parser parser(text);
    parser.HandleNextDocument(reader);
    TORCH_CHECK(!parser.HandleNextDocument(reader), path.string(), ": expected one YAML document");
  } catch (const YAML::Exception& error) {
    TORCH_CHECK(false, reader.location(error.mark), ": not YAML: ", error.msg);
  }
  return reader.take();
}

}  // namespace reprise::app
