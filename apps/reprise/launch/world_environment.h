// What tells the processes of a world who they are: the variables that torchrun sets, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::app {

struct LocalWorld {
  int64_t processes = 1;  ///< of this machine
  int64_t machines = 1;
  int64_t machine = 0;  ///< which of them this is
  std::string address = "127.0.0.1";
  int port = 0;
};

/// This process's environment with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT of one process, and without what only torchrun's processes have. OMP_NUM_THREADS is
/// its share of this machine's cores, unless it is set already.
std::vector<std::string> environment_of(const LocalWorld& world, int64_t local_rank);

/// A port of this machine that nobody listens on.
int free_port();

}  // namespace reprise::app
