#include <reprise/dist/error_text.h>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <regex>
#include <stdexcept>
#include <system_error>

namespace reprise {

namespace {

std::string out_of_memory(const std::string& size) {
  return "out of memory: " + size +
         " could not be allocated. Use smaller batches or shorter texts, or free memory";
}

/// "1.5 GiB", of the number behind these words; "more" if there is none.
std::string size_behind(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  const double bytes =
      at == std::string::npos ? 0 : std::strtod(text.c_str() + at + words.size(), nullptr);
  if (!(bytes > 0)) {
    return "more";
  }
  constexpr double kMebibyte = 1 << 20, kGibibyte = 1 << 30;
  const double size = bytes / (bytes < kGibibyte ? kMebibyte : kGibibyte);
  std::string number = std::to_string(size);
  number.resize(number.find('.') + 3);
  return number + (bytes < kGibibyte ? " MiB" : " GiB");
}

/// LibTorch's CPU allocator says "[enforce fail at alloc_cpu.cpp:117] err == 0. ..."; that of GPUs
/// goes on with pages about its settings.
std::string torch_text(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  // A message that only quotes the allocator has said more already.
  const bool is_bare = text.starts_with("[enforce fail") || text.starts_with("DefaultCPUAllocator");
  if (is_bare && text.find("DefaultCPUAllocator") != std::string::npos) {
    return out_of_memory(size_behind(text, "you tried to allocate "));
  }
  const std::string gpu = "CUDA out of memory. ";
  if (text.starts_with(gpu)) {
    return out_of_memory("on the GPU: " +
                         text.substr(gpu.size(), text.find(". ", gpu.size()) - gpu.size()));
  }
  return text;
}

const char* advice_for(const std::error_code& code) {
  switch (code.value()) {
    case ELOOP:
      return ". Links lead in a circle: remove one of them";
    case EACCES:
    case EPERM:
      return ". Check the permissions of the file and its folder";
    case ENOSPC:
    case EDQUOT:
      return ". Free disk space, or choose another folder";
    case EROFS:
      return ". Choose another folder";
    case ENAMETOOLONG:
      return ". Choose a shorter name";
    default:
      return "";
  }
}

/// "a/b: cannot rename it (to c): No space left on device. Free disk space, ..."
std::string files_text(const std::filesystem::filesystem_error& error) {
  // what() is "filesystem error: cannot rename: REASON [PATH] [PATH]".
  std::string what = error.what();
  const std::string prefix = "filesystem error: ";
  what = what.starts_with(prefix) ? what.substr(prefix.size()) : what;
  what = what.substr(0, what.find(": "));
  if (!what.starts_with("cannot")) {
    what = "cannot be opened";  // "status", "in canonical", ...
  }
  std::string text = error.path1().empty() ? what : error.path1().string() + ": " + what;
  text += error.path2().empty() ? "" : " (to " + error.path2().string() + ")";
  return text + ": " + error.code().message() + advice_for(error.code());
}

/// The same for any code that throws nlohmann's, whose what() is "[json.exception.type_error.302]
/// type must be string, but is number".
std::string json_text(const nlohmann::json::exception& error) {
  const std::string what = error.what();
  const size_t end = what.find("] ");
  return "a JSON value is not what was expected: " +
         (end == std::string::npos ? what : what.substr(end + 2));
}

}  // namespace

std::string error_text(const std::exception& error) {
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) {
    return torch_text(*torch);
  }
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return files_text(*files);
  }
  if (const auto* json = dynamic_cast<const nlohmann::json::exception*>(&error)) {
    return json_text(*json);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return out_of_memory("more");
  }
  if (const auto* expression = dynamic_cast<const std::regex_error*>(&error)) {
    return std::string("a regular expression cannot be used: ") + expression->what();
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    return std::string("the system refuses: ") + system->what() + advice_for(system->code());
  }
  return error.what();
}

}  // namespace reprise
