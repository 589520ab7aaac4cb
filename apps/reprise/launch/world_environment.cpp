#include "reprise/launch/world_environment.h"

#include <c10/util/Exception.h>

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

extern char** environ;  // NOLINT(readability-identifier-naming): POSIX names it

namespace reprise::app {

namespace {

// The cores that this process may use; in a container there may be fewer than the machine has.
int64_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

std::vector<std::string> environment_of(const LocalWorld& world, int64_t local_rank) {
  std::map<std::string, std::string> variables = {
      {"RANK", std::to_string(world.machine * world.processes + local_rank)},
      {"WORLD_SIZE", std::to_string(world.machines * world.processes)},
      {"LOCAL_RANK", std::to_string(local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(world.processes)},
      {"MASTER_ADDR", world.address},
      {"MASTER_PORT", std::to_string(world.port)},
      {"REPRISE_WORLD_SECRET", world.secret},
      {"REPRISE_WORLD_SECRET_FILE", ""}};  // read already
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    variables["OMP_NUM_THREADS"] =
        std::to_string(std::max<int64_t>(1, usable_cores() / world.processes));
  }
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text = *each;
    // A torchrun that started this process belongs to another world.
    if (!text.starts_with("TORCHELASTIC_") && !variables.contains(text.substr(0, text.find('=')))) {
      all.push_back(text);
    }
  }
  for (const auto& [name, value] : variables) {
    all.push_back(name + "=" + value);
  }
  return all;
}

int free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound = listener >= 0 && ::bind(listener, generic, size) == 0 &&
                        ::getsockname(listener, generic, &size) == 0;
  const int error = errno;
  if (listener >= 0) {
    ::close(listener);
  }
  TORCH_CHECK(is_bound, "[launch] no free port: ", std::strerror(error), ". Give --master_port");
  return ntohs(address.sin_port);
}

}  // namespace reprise::app
