// Reads the rank of this process from the environment variables of its launcher.
//
// The first launcher whose variables are set counts: torchrun's, which people also set by hand,
// then mpirun's, then srun's. Variables that are set but wrong are an error; the next launcher's
// are not tried.
#include <reprise/dist/connect.h>

#include <c10/util/Exception.h>

#include <charconv>
#include <cstdlib>

namespace reprise {

namespace {

constexpr int kDefaultPort = 29500;  // torchrun's

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

/// The value of a variable as a number from `least` to `most`.
int64_t number(const char* name, int64_t least, int64_t most, const std::string& expected) {
  const auto text = variable(name).value_or("");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TORCH_CHECK(
      error == std::errc() && end == text.data() + text.size() && least <= value && value <= most,
      "[world] the environment variable ",
      name,
      text.empty() ? " is not set" : "=" + text,
      "; expected ",
      expected);
  return value;
}

/// The variable names of a launcher.
struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
};

constexpr Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names kOpenMpi{
    "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Names kMpich{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"};
constexpr Names kSlurm{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

Rendezvous numbers(const Names& names) {
  constexpr int64_t kMost = 1 << 20;
  Rendezvous rendezvous;
  rendezvous.size = number(names.size, 1, kMost, "the number of processes");
  const auto last = std::to_string(rendezvous.size - 1);
  const auto in_world =
      c10::str("0 to ", last, ", as ", names.size, "=", rendezvous.size, " (", names.launcher, ")");
  rendezvous.rank = number(names.rank, 0, rendezvous.size - 1, in_world);
  // MPICH does not always set it. The processes then count as being on one machine.
  rendezvous.local_rank = variable(names.local_rank)
                              ? number(names.local_rank, 0, rendezvous.size - 1, in_world)
                              : rendezvous.rank;
  return rendezvous;
}

int port_or(std::optional<int> otherwise) {
  return variable("MASTER_PORT") || !otherwise
             ? static_cast<int>(number("MASTER_PORT", 1, 65535, "a port, 1 to 65535"))
             : *otherwise;
}

/// MASTER_ADDR, or the loopback address if all processes are on one machine.
std::string address_or_local(const Names& names, bool is_one_machine) {
  const auto address = variable("MASTER_ADDR");
  TORCH_CHECK(address || is_one_machine,
              "[world] ",
              names.launcher,
              " started this process (",
              names.rank,
              " is set), but not all on one machine, and does not say where rank 0 is: set "
              "MASTER_ADDR to the name or address of its machine");
  return address.value_or("127.0.0.1");
}

Rendezvous torchrun_rendezvous() {
  auto rendezvous = numbers(kTorchrun);
  const auto address = variable("MASTER_ADDR");
  TORCH_CHECK(address,
              "[world] RANK and WORLD_SIZE are set, but MASTER_ADDR is not; expected the name or "
              "address of the machine of rank 0 (127.0.0.1 if all are on this one)");
  rendezvous.address = *address;
  rendezvous.port = port_or(std::nullopt);
  if (variable("LOCAL_WORLD_SIZE")) {
    rendezvous.local_size =
        number("LOCAL_WORLD_SIZE", 1, rendezvous.size, "the number of processes here");
  }
  if (variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") {
    rendezvous.attempt = variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  }
  return rendezvous;
}

Rendezvous mpi_rendezvous(const Names& names, const char* local_size) {
  auto rendezvous = numbers(names);
  if (variable(local_size)) {
    rendezvous.local_size = number(local_size, 1, rendezvous.size, "the number of processes here");
  }
  const bool is_one_machine = rendezvous.size == 1 || rendezvous.local_size == rendezvous.size;
  rendezvous.address = address_or_local(names, is_one_machine);
  rendezvous.port = port_or(kDefaultPort);
  return rendezvous;
}

Rendezvous slurm_rendezvous() {
  auto rendezvous = numbers(kSlurm);
  const auto launch_node = variable("SLURM_LAUNCH_NODE_IPADDR");
  // srun is called on the first machine of a batch job, where rank 0 is.
  rendezvous.address = !variable("MASTER_ADDR") && launch_node
                           ? *launch_node
                           : address_or_local(kSlurm, rendezvous.size == 1);
  rendezvous.port = port_or(kDefaultPort);
  return rendezvous;
}

// The rendezvous that mpirun or srun has set, if any.
std::optional<Rendezvous> mpi_or_slurm_rendezvous() {
  if (variable(kOpenMpi.rank)) {
    return mpi_rendezvous(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE");
  }
  if (variable(kMpich.rank)) {
    return mpi_rendezvous(kMpich, "MPI_LOCALNRANKS");
  }
  // A batch script has Slurm's variables too, for one task, but does not belong to a step.
  const bool is_batch_script =
      variable("SLURM_JOB_ID") && !variable("SLURM_STEP_ID") && !variable("SLURM_STEPID");
  if (variable(kSlurm.rank) && !is_batch_script) {
    return slurm_rendezvous();
  }
  return std::nullopt;
}

}  // namespace

std::optional<Rendezvous> rendezvous_from_environment() {
  const bool is_torchrun = variable(kTorchrun.rank) || variable(kTorchrun.size);
  auto rendezvous = is_torchrun ? torchrun_rendezvous() : mpi_or_slurm_rendezvous();
  // A shell started by `srun --pty bash` has these variables too, and so has all that it starts.
  if (!rendezvous || (!is_torchrun && rendezvous->size == 1)) {
    return std::nullopt;
  }
  rendezvous->secret = world_secret_from_environment().value_or("");
  return rendezvous;
}

}  // namespace reprise
