// Random generators of a run: the CPU's and the device's, in every process.
//
// Processes use different random numbers, since dropout must differ between rows. In a checkpoint,
// the generators of rank 0 are "cpu" and "device", those of rank r are "cpu.r" and "device.r".
#pragma once

#include <reprise/dist/world.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace reprise {

/// Seeds this process's generators; rank 0 uses the seed unchanged.
void seed_everything(uint64_t seed, const at::Device& device, const World& world);

/// The states of all processes, in every process. A collective.
NamedTensors rng_state(const at::Device& device, const World& world);

/// Restores this process's generators. If the file was written by fewer processes and has no state
/// for this rank, they are seeded anew from seed, rank and step. Throws if rank 0 has no state.
void restore_rng(const TensorFile& file,
                 const at::Device& device,
                 const World& world,
                 uint64_t seed,
                 int64_t step);

}  // namespace reprise
