#include "reprise/training/run/run_facts.h"

#include <reprise/reward/url.h>

#include <torch/headeronly/version.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string_view>

namespace reprise::app {

namespace {

bool is_secret_flag(std::string_view word) {
  const auto has = [&](std::string_view part) { return word.find(part) != std::string_view::npos; };
  return word.starts_with("--") && !word.ends_with("_file") &&
         (has("password") || has("secret") || has("api_key") || has("auth"));
}

std::string without_secrets(const std::string& word) {
  const size_t value = word.starts_with("--") ? word.find('=') : std::string::npos;
  const size_t begin = value == std::string::npos ? 0 : value + 1;
  const std::string rest = word.substr(begin);
  if (value != std::string::npos && is_secret_flag(word.substr(0, value))) {
    return word.substr(0, begin) + kRedacted;
  }
  return word.substr(0, begin) +
         (rest.find("://") == std::string::npos ? rest : redacted_url(rest));
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%^*";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
    return word;
  }
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return text + "'";
}

std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) {
    words.push_back(word);
  }
  if (!words.empty()) {
    words.front() = words.front().substr(words.front().rfind('/') + 1);
  }
  return words;
}

std::string host_name() {
  std::array<char, 256> name{};
  const bool is_known = ::gethostname(name.data(), name.size() - 1) == 0;
  return is_known ? name.data() : "";
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 64> text{};
  if (::localtime_r(&now, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M %z", &parts) == 0) {
    return {};
  }
  return text.data();
}

}  // namespace

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  bool is_secret = false;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + (is_secret ? kRedacted : quoted(without_secrets(word)));
    is_secret = is_secret_flag(word) && word.find('=') == std::string::npos;
  }
  return text;
}

Json run_facts(const std::string& version) {
  return {{"date", now_text()},
          {"host", host_name()},
          {"version", version},
          {"libtorch", TORCH_VERSION},
          {"command", command_text(own_words())}};
}

}  // namespace reprise::app
