// The device that a command computes on.
#pragma once

#include <CLI/CLI.hpp>

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <string>

namespace reprise::app {

/// The names that --device takes.
inline constexpr std::array kDeviceNames = {"cpu", "cuda"};

/// Adds --device to a command. Empty: the GPU if there is one.
void add_device_option(CLI::App& command, std::string& device);

/// Throws if a GPU is requested and there is none.
c10::Device choose_device(const std::string& name);
/// The same for one of several processes of a machine: the GPU with index `local_rank` becomes the
/// current one. Throws if there are fewer GPUs.
c10::Device choose_device(const std::string& name, int64_t local_rank);

}  // namespace reprise::app
