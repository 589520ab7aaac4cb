// At which addresses a process listens, as /proc shows it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace reprise::testing {

struct Listener {
  std::string address;  ///< hexadecimal, as in /proc/net/tcp: 0100007F is 127.0.0.1
  int port = 0;
  bool is_loopback() const {
    return (address.size() == 8 && address.ends_with("7F")) ||
           address == "00000000000000000000000001000000";
  }
};

/// The TCP sockets of a process that listen.
inline std::vector<Listener> listeners_of(pid_t process) {
  const auto folder = std::filesystem::path("/proc") / std::to_string(process);
  std::set<std::string> sockets;
  std::error_code ended;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "fd", ended)) {
    std::error_code closed;
    sockets.insert(std::filesystem::read_symlink(entry.path(), closed).string());
  }
  std::vector<Listener> listeners;
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream file(folder / "net" / table);
    std::string line;
    std::getline(file, line);  // names of columns
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retries, user, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >>
          timeout >> inode;
      const auto colon = local.find(':');
      if (state == "0A" && sockets.contains("socket:[" + inode + "]")) {
        listeners.push_back(
            {local.substr(0, colon), std::stoi(local.substr(colon + 1), nullptr, 16)});
      }
    }
  }
  return listeners;
}

}  // namespace reprise::testing
