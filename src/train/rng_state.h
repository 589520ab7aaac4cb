// The random generators of a run: those of the CPU and of the model's device, in every process.
//
// Processes draw different numbers: dropout on different rows must not be the same. In a checkpoint
// the first process's generators are "cpu" and "device", those of rank r "cpu.r" and "device.r".
#pragma once

#include <reprise/dist/world.h>
#include <reprise/io/safetensors.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace reprise {

/// Sets this process's generators. Those of the first, by the seed itself.
void seed_everything(uint64_t seed, const at::Device& device, const World& world);

/// Of all processes, in all of them. A collective.
NamedTensors rng_state(const at::Device& device, const World& world);

/// This process's generators as they were. A file that was written by fewer processes says nothing
/// of those of the others: these begin anew, by seed, rank and step. Throws for a file that lacks
/// the first process's.
void restore_rng(const SafetensorsFile& file,
                 const at::Device& device,
                 const World& world,
                 uint64_t seed,
                 int64_t step);

}  // namespace reprise
