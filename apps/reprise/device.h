// Where a command computes.
#pragma once

#include <CLI/CLI.hpp>

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace reprise::app {

/// Adds --device to a command; empty: the GPU if there is one.
void add_device_option(CLI::App& command, std::string& device);

/// Throws if a GPU is asked for and there is none.
c10::Device choose_device(const std::string& name);
/// The same for one of several processes of a machine: the GPU with its number, which becomes the
/// current one. Throws if there are fewer GPUs.
c10::Device choose_device(const std::string& name, int64_t local_rank);

}  // namespace reprise::app
