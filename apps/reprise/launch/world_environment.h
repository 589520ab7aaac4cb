// Environment variables that tell a process its rank, the same as torchrun's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::app {

struct LocalWorld {
  int64_t processes = 1;  ///< on this machine
  int64_t machines = 1;
  int64_t machine = 0;  ///< index of this one
  std::string address = "127.0.0.1";
  int port = 0;
  std::string secret = {};  ///< that the processes prove to each other
};

/// This process's environment plus RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT and REPRISE_WORLD_SECRET of one process, without variables specific to torchrun.
/// OMP_NUM_THREADS is the process's share of the cores, unless it is already set.
std::vector<std::string> environment_of(const LocalWorld& world, int64_t local_rank);

/// A port that is not in use at the loopback address.
int free_port();

}  // namespace reprise::app
