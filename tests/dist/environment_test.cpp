// Who this process is, from the variables of torchrun, mpirun and srun.
#include <reprise/dist/connect.h>

#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace reprise {
namespace {

using testing::error_of;
using testing::expect_error;
using Variables = std::map<std::string, std::string>;

/// The rendezvous that a process with these variables and no others of their kind has.
std::optional<Rendezvous> rendezvous_in(const Variables& variables) {
  for (const char* name : {"RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "OMPI_COMM_WORLD_RANK",
                           "PMI_RANK",
                           "SLURM_PROCID",
                           "SLURM_JOB_ID",
                           "SLURM_LAUNCH_NODE_IPADDR",
                           "SLURM_STEPID",
                           "SLURM_STEP_ID",
                           "PMI_SIZE",
                           "TORCHELASTIC_USE_AGENT_STORE"}) {
    unsetenv(name);
  }
  for (const auto& [name, value] : variables) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  return rendezvous_from_environment();
}

Variables torchrun() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"MASTER_ADDR", "host"},
          {"MASTER_PORT", "1234"}};
}

void expect_refused(const std::string& name, const std::string& value, const std::string& part) {
  auto variables = torchrun();
  variables[name] = value;
  expect_error([&] { rendezvous_in(variables); }, part);
}

TEST(Environment, SaysNothingWhereNobodyStartedThisProcess) {
  EXPECT_FALSE(rendezvous_in({}));
  EXPECT_FALSE(rendezvous_in({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}));
  // The script of a batch job.
  EXPECT_FALSE(
      rendezvous_in({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}));
  // A shell of srun --pty bash, and mpirun -n 1.
  EXPECT_FALSE(rendezvous_in({{"SLURM_JOB_ID", "7"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_NTASKS", "1"},
                              {"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(rendezvous_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
}

TEST(Environment, OfTorchrun) {
  const auto rendezvous = rendezvous_in(torchrun());
  ASSERT_TRUE(rendezvous);
  EXPECT_EQ(rendezvous->rank, 3);
  EXPECT_EQ(rendezvous->size, 8);
  EXPECT_EQ(rendezvous->local_rank, 1);
  EXPECT_EQ(rendezvous->address, "host");
  EXPECT_EQ(rendezvous->port, 1234);
  EXPECT_FALSE(rendezvous->attempt);
  auto elastic = torchrun();
  elastic["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  elastic["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_EQ(rendezvous_in(elastic)->attempt, "2");
}

TEST(Environment, OfTorchrunThatIsWrongIsRefused) {
  expect_refused("WORLD_SIZE", "", "WORLD_SIZE is not set; expected the number of processes");
  expect_refused("WORLD_SIZE", "0", "WORLD_SIZE=0; expected the number of processes");
  expect_refused("RANK", "8", "RANK=8; expected 0 to 7, as WORLD_SIZE=8 (torchrun)");
  expect_refused("RANK", "-1", "RANK=-1; expected 0 to 7");
  expect_refused("RANK", "3x", "RANK=3x; expected 0 to 7");
  expect_refused("RANK", "", "RANK is not set; expected 0 to 7");
  expect_refused("LOCAL_RANK", "one", "LOCAL_RANK=one; expected 0 to 7");
  expect_refused("MASTER_PORT", "65536", "MASTER_PORT=65536; expected a port, 1 to 65535");
  expect_refused("MASTER_PORT", "", "MASTER_PORT is not set; expected a port");
  expect_refused("MASTER_ADDR", "", "MASTER_ADDR is not; expected the name or address");
}

TEST(Environment, OfOpenMpi) {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  const auto rendezvous = rendezvous_in(variables);
  ASSERT_TRUE(rendezvous);
  EXPECT_EQ(rendezvous->rank, 1);
  EXPECT_EQ(rendezvous->size, 4);
  EXPECT_EQ(rendezvous->address, "127.0.0.1");
  EXPECT_EQ(rendezvous->port, 29500);
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  expect_error([&] { rendezvous_in(variables); }, "set MASTER_ADDR to the name or address");
  variables["MASTER_ADDR"] = "node1";
  variables["MASTER_PORT"] = "77";
  EXPECT_EQ(rendezvous_in(variables)->address, "node1");
  EXPECT_EQ(rendezvous_in(variables)->port, 77);
}

TEST(Environment, OfMpich) {
  const auto rendezvous = rendezvous_in(
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}, {"MASTER_ADDR", "node1"}});
  ASSERT_TRUE(rendezvous);
  EXPECT_EQ(rendezvous->rank, 2);
  EXPECT_EQ(rendezvous->size, 3);
  EXPECT_EQ(rendezvous->local_rank, 0);
}

TEST(Environment, OfSrun) {
  Variables variables{{"SLURM_PROCID", "5"},
                      {"SLURM_NTASKS", "6"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_JOB_ID", "7"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}};
  const auto rendezvous = rendezvous_in(variables);
  ASSERT_TRUE(rendezvous);
  EXPECT_EQ(rendezvous->rank, 5);
  EXPECT_EQ(rendezvous->local_rank, 1);
  EXPECT_EQ(rendezvous->address, "10.0.0.1");
  EXPECT_EQ(rendezvous->port, 29500);
  variables["MASTER_ADDR"] = "node1";
  EXPECT_EQ(rendezvous_in(variables)->address, "node1");
}

}  // namespace
}  // namespace reprise
