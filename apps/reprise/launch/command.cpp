// `reprise launch`: runs a training command in several processes on one machine or several.
#include "reprise/commands.h"
#include "reprise/error_text.h"
#include "reprise/launch/restart.h"
#include "reprise/launch/worker_group.h"
#include "reprise/launch/world_environment.h"
#include "reprise/training/flags/flag_table.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/flags/suggest.h"

#include <reprise/dist/secret.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace reprise::app {

namespace {

using Words = std::vector<std::string>;

constexpr double kLongestGrace = 1e7;
constexpr int kUsualPort = 29500;  // torchrun's
constexpr const char* kNotes =
    "On several machines, which share --output_dir, run it on each with its --node_rank, and set "
    "REPRISE_WORLD_SECRET_FILE there to the same file, yours alone (chmod 600).\n"
    "Only rank 0 prints progress. Lines of other ranks begin with \"[rank 2] \". When one process "
    "fails, all are ended, and the exit code is that of the first one that failed.";

struct LaunchOptions {
  int64_t processes = 0;
  int64_t machines = 1;
  int64_t machine = -1;  // not given
  std::string address;
  int64_t port = 0;  // not given
  int64_t restarts = 0;
  double grace = 30;
  Words command;
};

LocalWorld local_world(const LaunchOptions& options) {
  constexpr int64_t kMost = 1 << 14;  // more than any machine has cores, or any job machines
  for (const auto& [name, count] :
       {std::pair{"--nproc ", options.processes}, {"--nnodes ", options.machines}}) {
    TORCH_CHECK(
        count >= 1 && count <= kMost, name, count, ": expected at least 1, at most ", kMost);
  }
  TORCH_CHECK(options.port >= 0 && options.port < 65536,
              "--master_port ",
              options.port,
              ": expected a port, up to 65535");
  TORCH_CHECK(options.restarts >= 0 && options.grace >= 0 && options.grace <= kLongestGrace,
              "--max_restarts and --grace: expected at least 0, and at most ",
              kLongestGrace,
              " s of grace");
  if (options.machines > 1) {
    TORCH_CHECK(!options.address.empty(),
                "--nnodes ",
                options.machines,
                " needs --master_addr: name or address of the machine with --node_rank 0");
    TORCH_CHECK(options.machine >= 0,
                "--nnodes ",
                options.machines,
                " needs --node_rank: the index of this machine, from 0");
  }
  TORCH_CHECK(options.machine < options.machines,
              "--node_rank ",
              options.machine,
              ": expected less than --nnodes ",
              options.machines);
  LocalWorld world{options.processes, options.machines, std::max<int64_t>(options.machine, 0)};
  if (!options.address.empty()) {
    world.address = options.address;
  }
  world.port = static_cast<int>(options.port);
  if (world.port == 0 && options.machines > 1) {
    world.port = kUsualPort;
  }
  const auto secret = world_secret_from_environment();
  TORCH_CHECK(
      secret || options.machines == 1,
      "--nnodes ",
      options.machines,
      " needs a secret that the processes prove to each other. Set REPRISE_WORLD_SECRET, or "
      "REPRISE_WORLD_SECRET_FILE, to the same on every machine; head -c 32 /dev/urandom | "
      "base64 makes one");
  world.secret = secret ? *secret : new_world_secret();
  return world;
}

Objective objective_named(const std::string& name) {
  for (const Objective each : kObjectives) {
    if (name == to_string(each)) {
      return each;
    }
  }
  const Words names{"sft", "rm", "reward", "prm", "dpo", "kto", "kd", "grpo", "ppo"};
  TORCH_CHECK(name == "reward",
              "launch ",
              name,
              ": only training runs in several processes: sft, rm, prm, dpo, kto, kd, grpo, ppo",
              did_you_mean(nearest(name, names)));
  return Objective::Rm;
}

// Parses the command as its processes will, so that errors are reported once, here.
TrainingFlags parse_command(const Words& words) {
  const Objective objective = objective_named(words.front());
  CLI::App program;
  CLI::App* command = program.add_subcommand(words.front());
  const auto flags = add_training_flags(*command, objective);
  Words reversed(words.rbegin(), words.rend());  // as CLI11 takes them
  try {
    program.parse(reversed);
  } catch (const CLI::ParseError& error) {
    throw CLI::RuntimeError(print_parse_error(program, error));
  }
  finish_flags(*command, *flags);
  return *flags;
}

GroupEnd run_once(LocalWorld world,
                  const Words& words,
                  const LaunchOptions& options,
                  const SignalInbox& inbox) {
  if (world.port == 0) {
    world.port = free_port();
  }
  WorkerCommand command;
  command.words = {std::filesystem::read_symlink("/proc/self/exe").string()};
  command.words.insert(command.words.end(), words.begin(), words.end());
  std::vector<WorkerCommand> commands;
  for (int64_t i = 0; i < world.processes; ++i) {
    command.environment = environment_of(world, i);
    commands.push_back(command);
  }
  return run_group(
      commands,
      world.machine * world.processes,
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(options.grace)),
      inbox);
}

void say(const std::string& text) {
  std::cerr << ("reprise launch: " + text + "\n") << std::flush;
}

/// The exit code.
int launch(const LaunchOptions& options) {
  const LocalWorld world = local_world(options);
  Words words = options.command;
  const TrainingFlags flags = parse_command(words);
  const RunMark mark(flags.output_dir);
  const SignalInbox inbox;
  for (int64_t restart = 0;; ++restart) {
    const GroupEnd end = run_once(world, words, options, inbox);
    if (!end.failed_rank) {
      return 0;
    }
    say("rank " + std::to_string(*end.failed_rank) + " failed first: " + end.end.describe() +
        (end.end.signal == SIGKILL ? ", possibly out of memory" : ""));
    if (end.was_stopped || restart == options.restarts) {
      return end.end.exit_code;
    }
    std::string from = flags.resume_from_checkpoint;
    if (mark.has_begun()) {
      from = mark.has_saved() || from.empty() ? "auto" : from;
      words = resuming_words(options.command, from);
    }
    say("restart " + std::to_string(restart + 1) + " of " + std::to_string(options.restarts) +
        (from.empty()     ? ", from the start"
         : from == "auto" ? ", from the latest checkpoint"
                          : ", again from " + from));
  }
}

}  // namespace

void add_launch(CLI::App& app) {
  auto* command = app.add_subcommand("launch", "Run a training command in several processes.");
  const auto options = std::make_shared<LaunchOptions>();
  command->footer(kNotes);
  command
      ->add_option(
          "--nproc,--nproc_per_node", options->processes, "Number of processes on this machine")
      ->required();
  command
      ->add_option("--nnodes", options->machines, "Number of machines, each with as many processes")
      ->capture_default_str();
  command->add_option("--node_rank", options->machine, "Index of this machine, from 0");
  command->add_option("--master_addr",
                      options->address,
                      "Name or address of machine 0; default for one machine: 127.0.0.1");
  command->add_option("--master_port",
                      options->port,
                      "Port on machine 0; default: a free one, for several machines 29500");
  command
      ->add_option("--max_restarts",
                   options->restarts,
                   "How often to restart all processes from the latest checkpoint after a failure")
      ->capture_default_str();
  command
      ->add_option("--grace",
                   options->grace,
                   "Seconds until the other processes are killed after one failed")
      ->capture_default_str();
  // CLI11 assigns all words behind -- to a positional, even those that look like options.
  command->add_option("command", options->command, "A training command with its flags, behind --")
      ->group("");
  command->callback([options] {
    TORCH_CHECK(!options->command.empty(),
                "launch: what is to be launched? Write it behind the flags: sft --model ...");
    if (const int code = launch(*options); code != 0) {
      throw CLI::RuntimeError(code);
    }
  });
}

}  // namespace reprise::app
