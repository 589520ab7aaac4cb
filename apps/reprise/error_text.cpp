#include "reprise/error_text.h"

#include "reprise/training/flags/option_names.h"

#include <reprise/io/json.h>
#include <reprise/report/units.h>
#include <reprise/reward/url.h>

#include <c10/util/Exception.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace reprise::app {

namespace {

constexpr const char* kSmaller =
    "Use smaller batches (--per_device_train_batch_size, --batch_size), shorter texts "
    "(--max_length) or --gradient_checkpointing, or free memory";

std::string out_of_memory(const std::string& size) {
  return "out of memory: " + size + " could not be allocated. " + kSmaller;
}

/// The number of bytes behind these words; "more memory" if there is none.
std::string bytes_behind(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  char* end = nullptr;
  const char* begin = at == std::string::npos ? nullptr : text.c_str() + at + words.size();
  const double bytes = begin == nullptr ? 0 : std::strtod(begin, &end);
  return bytes > 0 ? human_bytes(bytes) : "more memory";
}

/// What LibTorch says: its CPU allocator's message has the source line and an error number.
std::string torch_text(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  const bool is_allocator = text.find("DefaultCPUAllocator") != std::string::npos ||
                            text.find("alloc_cpu.cpp") != std::string::npos;
  return is_allocator ? out_of_memory(bytes_behind(text, "you tried to allocate ")) : text;
}

/// "a/b: cannot rename it to c: No space left on device"
std::string files_text(const std::filesystem::filesystem_error& error) {
  // what() is "filesystem error: cannot rename: REASON [PATH] [PATH]".
  std::string what = error.what();
  const std::string prefix = "filesystem error: ";
  what = what.starts_with(prefix) ? what.substr(prefix.size()) : what;
  what = what.substr(0, what.find(": "));
  std::string text = error.path1().empty() ? what : error.path1().string() + ": " + what;
  text += error.path2().empty() ? "" : " (" + error.path2().string() + ")";
  const int code = error.code().value();
  const char* const advice = code == ELOOP    ? ". A symbolic link leads to itself: remove it"
                             : code == EACCES ? ". Check the permissions of the folder"
                             : code == ENOSPC ? ". Free disk space, or choose another folder"
                             : code == EROFS  ? ". Choose another folder"
                                              : "";
  return text + ": " + error.code().message() + advice;
}

std::string plain_text(const std::exception& error) {
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) {
    return torch_text(*torch);
  }
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return files_text(*files);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return out_of_memory("more memory");
  }
  if (const auto* json = dynamic_cast<const Json::exception*>(&error)) {
    const std::string what = json->what();  // "[json.exception.type_error.302] type must be ..."
    return "a JSON file has a value of another type than expected: " +
           what.substr(std::min(what.find("] ") + 2, what.size()));
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    return std::string("the system refused: ") + system->what();
  }
  return error.what();
}

}  // namespace

std::string error_text(const std::exception& error) {
  return without_passwords(with_flag_names(plain_text(error)));
}

int print_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream errors;
  const int code = app.exit(error, std::cout, errors);
  std::cerr << without_passwords(errors.str());
  return code;
}

}  // namespace reprise::app
