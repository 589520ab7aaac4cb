#include <reprise/dist/secret.h>

#include "dist/hmac.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace reprise {

namespace {

constexpr size_t kLeastBytes = 16;  // shorter ones can be guessed by who sees a proof
constexpr size_t kMostBytes = 4096;
constexpr const char* kVariable = "REPRISE_WORLD_SECRET";
constexpr const char* kFileVariable = "REPRISE_WORLD_SECRET_FILE";

const char* set_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

}  // namespace

std::string read_secret_file(const std::string& file, const std::string& name) {
  const int handle = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  TORCH_CHECK(handle >= 0, name, " ", file, ": ", std::strerror(errno));
  struct stat status {};
  std::array<char, kMostBytes + 1> bytes{};
  const bool is_file = ::fstat(handle, &status) == 0 && S_ISREG(status.st_mode);
  const ssize_t count = is_file ? ::read(handle, bytes.data(), bytes.size()) : -1;
  ::close(handle);
  TORCH_CHECK(count >= 0, name, " ", file, ": expected a file that can be read");
  TORCH_CHECK((status.st_mode & (S_IRWXG | S_IRWXO)) == 0,
              name,
              " ",
              file,
              ": other users may read it. Make it yours alone: chmod 600 ",
              file);
  TORCH_CHECK(count <= static_cast<ssize_t>(kMostBytes),
              name,
              " ",
              file,
              ": expected at most ",
              kMostBytes,
              " bytes");
  const std::string text(bytes.data(), static_cast<size_t>(count));
  return text.substr(0, text.find_first_of("\r\n"));
}

std::optional<std::string> world_secret_from_environment() {
  const char* text = set_variable(kVariable);
  const char* file = set_variable(kFileVariable);
  TORCH_CHECK(text == nullptr || file == nullptr,
              "[world] ",
              kVariable,
              " and ",
              kFileVariable,
              " are both set; expected one of them");
  if (text == nullptr && file == nullptr) {
    return std::nullopt;
  }
  std::string secret =
      text != nullptr ? text : read_secret_file(file, c10::str("[world] ", kFileVariable));
  TORCH_CHECK(kLeastBytes <= secret.size() && secret.size() <= kMostBytes,
              "[world] the secret in ",
              text != nullptr ? kVariable : file,
              " has ",
              secret.size(),
              " characters; expected ",
              kLeastBytes,
              " to ",
              kMostBytes);
  return secret;
}

std::string new_world_secret() {
  std::string text;
  for (const char byte : dist::random_bytes(32)) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<uint8_t>(byte) >> 4];
    text += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return text;
}

}  // namespace reprise
