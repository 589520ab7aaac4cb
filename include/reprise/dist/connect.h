// Joining a world: this process's rank, and how it finds the others.
#pragma once

#include <reprise/dist/secret.h>
#include <reprise/dist/world.h>
#include <reprise/export.h>

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace reprise {

/// The rank of a process, and where the processes of its world meet.
struct Rendezvous {
  int64_t rank = 0;
  int64_t size = 1;
  int64_t local_rank = 0;    ///< among the processes of this machine
  int64_t local_size = 0;    ///< processes of this machine; 0: not known
  std::string address = {};  ///< where the first process listens, and at no other address
  int port = 0;
  /// Set if torchrun's agent listens at the address, for all restarts of a job: the number of this
  /// restart.
  std::optional<std::string> attempt = {};
  /// Every process of a world of several must prove to the others that it knows it. At least 16
  /// characters; never sent.
  std::string secret = {};
};

/// Reads the environment variables that torchrun and `reprise launch` set (RANK, WORLD_SIZE,
/// LOCAL_RANK, MASTER_ADDR, MASTER_PORT), or those of Open MPI's and MPICH's mpirun, or of srun.
/// std::nullopt if none of them started this process. mpirun and srun do not choose a port: it is
/// 29500 unless MASTER_PORT is set. Throws if the variables contradict each other, or if they do
/// not tell where the first process is. A single process of mpirun or srun is not a world, because
/// a shell inside a job looks the same. The secret is that of world_secret_from_environment().
REPRISE_API std::optional<Rendezvous> rendezvous_from_environment();

struct WorldOptions {
  /// NCCL for a GPU, Gloo for the CPU.
  c10::Device device = c10::kCPU;
  /// How long a process waits for the others, to join and in a collective.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// Joins the world and returns once all processes have. Throws, with advice, if the port is taken,
/// if ranks are missing (they are listed) or used twice, if the sizes or the secrets differ, or if
/// there is no backend for the device. See SECURITY.md for what the secret protects.
REPRISE_API std::unique_ptr<World> connect_world(const Rendezvous& rendezvous,
                                                 const WorldOptions& options);

/// Tells the other processes why this one is about to end, so that their errors name the cause. Not
/// a collective. Does nothing for a world that was not connected or has already failed.
REPRISE_API void report_failure(const World& world, const std::string& message);

}  // namespace reprise
