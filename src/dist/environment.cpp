// Reads who this process is from the variables of those who start processes.
//
// The first set that is there counts: torchrun's, as it is what people set by hand, then mpirun's,
// then srun's. A set that is there but wrong is refused, never passed over for the next.
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

/// The number that a variable has, from `least` to `most`.
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

/// What one way of starting processes calls its variables.
struct Names {
  const char* starter;
  const char* rank;
  const char* size;
  const char* local_rank;
};

constexpr Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names kOpenMpi{
    "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Names kMpich{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"};
constexpr Names kSlurm{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

WorldPlace numbers(const Names& names) {
  constexpr int64_t kMost = 1 << 20;
  WorldPlace place;
  place.size = number(names.size, 1, kMost, "the number of processes");
  const auto last = std::to_string(place.size - 1);
  const auto in_world =
      c10::str("0 to ", last, ", as ", names.size, "=", place.size, " (", names.starter, ")");
  place.rank = number(names.rank, 0, place.size - 1, in_world);
  // MPICH does not always say it; processes of one machine are then numbered as in the world.
  place.local_rank = variable(names.local_rank)
                         ? number(names.local_rank, 0, place.size - 1, in_world)
                         : place.rank;
  return place;
}

int port_or(std::optional<int> otherwise) {
  return variable("MASTER_PORT") || !otherwise
             ? static_cast<int>(number("MASTER_PORT", 1, 65535, "a port, 1 to 65535"))
             : *otherwise;
}

/// Where the processes are on one machine, they find each other there.
std::string address_or_local(const Names& names, bool is_one_machine) {
  const auto address = variable("MASTER_ADDR");
  TORCH_CHECK(address || is_one_machine,
              "[world] ",
              names.starter,
              " started this process (",
              names.rank,
              " is set), but not all on one machine, and does not say where rank 0 is: set "
              "MASTER_ADDR to the name or address of its machine");
  return address.value_or("127.0.0.1");
}

WorldPlace torchrun_place() {
  auto place = numbers(kTorchrun);
  const auto address = variable("MASTER_ADDR");
  TORCH_CHECK(address,
              "[world] RANK and WORLD_SIZE are set, but MASTER_ADDR is not; expected the name or "
              "address of the machine of rank 0 (127.0.0.1 if all are on this one)");
  place.address = *address;
  place.port = port_or(std::nullopt);
  if (variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") {
    place.attempt = variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  }
  return place;
}

WorldPlace mpi_place(const Names& names, const char* local_size) {
  auto place = numbers(names);
  const bool is_one_machine =
      place.size == 1 ||
      (variable(local_size) &&
       number(local_size, 1, place.size, "the number of processes here") == place.size);
  place.address = address_or_local(names, is_one_machine);
  place.port = port_or(kDefaultPort);
  return place;
}

WorldPlace slurm_place() {
  auto place = numbers(kSlurm);
  const auto launcher = variable("SLURM_LAUNCH_NODE_IPADDR");
  // srun is called on the first machine of a batch job, where rank 0 is.
  place.address =
      !variable("MASTER_ADDR") && launcher ? *launcher : address_or_local(kSlurm, place.size == 1);
  place.port = port_or(kDefaultPort);
  return place;
}

// As mpirun or srun says it.
std::optional<WorldPlace> place_of_job() {
  if (variable(kOpenMpi.rank)) {
    return mpi_place(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE");
  }
  if (variable(kMpich.rank)) {
    return mpi_place(kMpich, "MPI_LOCALNRANKS");
  }
  // The script of a batch job has Slurm's variables too, for one task, but is not in a step.
  const bool is_batch_script =
      variable("SLURM_JOB_ID") && !variable("SLURM_STEP_ID") && !variable("SLURM_STEPID");
  if (variable(kSlurm.rank) && !is_batch_script) {
    return slurm_place();
  }
  return std::nullopt;
}

}  // namespace

std::optional<WorldPlace> place_from_environment() {
  if (variable(kTorchrun.rank) || variable(kTorchrun.size)) {
    return torchrun_place();
  }
  const auto place = place_of_job();
  // A shell of `srun --pty bash` has these variables too, and hands them to all that it starts.
  return place && place->size > 1 ? place : std::nullopt;
}

}  // namespace reprise
