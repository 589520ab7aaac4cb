// Joining a world: who this process is, and how it finds the others.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace reprise {

/// The place of a process in its world.
struct WorldPlace {
  int64_t rank = 0;
  int64_t size = 1;
  int64_t local_rank = 0;    ///< among the processes of its machine
  std::string address = {};  ///< where the first process listens
  int port = 0;
  /// torchrun listens there itself, for all attempts of a job: the name of this one.
  std::optional<std::string> attempt = {};
};

/// As torchrun and `reprise launch` (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT),
/// Open MPI's and MPICH's mpirun, and srun say it. Nothing if none of them started this process.
/// mpirun and srun do not say the port: it is 29500 unless MASTER_PORT is set. Throws for numbers
/// that do not fit together, and where it is not said who the first process is. A single process of
/// mpirun or srun is no world: a shell inside a job looks the same.
REPRISE_API std::optional<WorldPlace> place_from_environment();

struct WorldOptions {
  /// NCCL for a GPU, Gloo for the CPU.
  c10::Device device = c10::kCPU;
  /// How long anybody waits for another process: to join, or in a collective.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// Joins, and returns when all have. Throws, saying what to do, if the port is taken, ranks are
/// missing (by number) or there twice, sizes differ, or there is no backend for the device.
REPRISE_API std::unique_ptr<World> connect_world(const WorldPlace& place,
                                                 const WorldOptions& options);

/// Tells the others why this process is about to end, so that their errors name the cause and not
/// only that it is gone. Not a collective; nothing happens for a world that was not connected, or
/// that broke already.
REPRISE_API void report_failure(const World& world, const std::string& message);

}  // namespace reprise
