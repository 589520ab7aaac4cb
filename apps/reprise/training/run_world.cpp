#include "reprise/training/run_world.h"

#include "reprise/device.h"
#include "reprise/training/parallel_flags.h"

#include <reprise/data/dataset.h>
#include <reprise/dist/connect.h>
#include <reprise/io/dtype.h>

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <vector>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

// What must be the same everywhere: all flags, with the device that was chosen.
Json in_common(const TrainingFlags& flags, Json configuration, const c10::Device& device) {
  configuration["device"] = device.is_cpu() ? "cpu" : "cuda";
  return {{"command", to_string(flags.objective)}, {"flags", std::move(configuration)}};
}

std::string difference(int64_t rank, const Json& own, const Json& first) {
  const std::string who = "\n  rank " + std::to_string(rank) + " has ";
  if (own["command"] != first["command"]) {
    return who + own["command"].get<std::string>() + ", rank 0 has " +
           first["command"].get<std::string>();
  }
  std::string text;
  for (const auto& [name, value] : first["flags"].items()) {
    const Json here = own["flags"].value(name, Json());
    if (here != value) {
      text += who + "--" + name + " " + here.dump() + ", rank 0 has " + value.dump();
    }
  }
  return text;
}

void check_same_flags(const World& world, const Json& own) {
  std::string differences;
  const auto all = world.gather(own.dump(), "comparing flags");
  const Json first = Json::parse(all.front());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    differences += difference(static_cast<int64_t>(rank), Json::parse(all[rank]), first);
  }
  TORCH_CHECK(
      differences.empty(), "[world] processes of one run have the same flags:", differences);
}

// The last bytes of a file: weights differ there too if they differ, and reading all takes long.
std::string end_of(const fs::path& file) {
  constexpr std::streamoff kBytes = std::streamoff{1} << 16;
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream.tellg();
  std::string bytes(static_cast<size_t>(std::clamp<std::streamoff>(size, 0, kBytes)), '\0');
  stream.seekg(size - static_cast<std::streamoff>(bytes.size()));
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes.empty() ? "" : c10::sha1(bytes).str();
}

// Not by times of change, which differ between machines that have their own copies.
std::string model_key(const fs::path& folder) {
  std::set<fs::path> weights;
  std::error_code not_there;
  for (const auto& entry : fs::directory_iterator(folder, not_there)) {
    if (entry.path().extension() == ".safetensors") {
      weights.insert(entry.path());
    }
  }
  Json files = Json::array();
  for (const auto& file : weights) {
    files.push_back({file.filename().string(), fs::file_size(file), end_of(file)});
  }
  return content_hash({folder / "config.json", folder / "adapter_config.json"},
                      {{"weights", files}});
}

}  // namespace

RunWorld::RunWorld(const TrainingFlags& flags, const Json& configuration)
    : spread_(spread_options(flags)) {
  const auto place = place_from_environment();
  check_world_effects(flags, place ? std::optional(place->size) : std::nullopt);
  if (!place) {
    device_ = choose_device(flags.device);
    return;
  }
  device_ = choose_device(flags.device, place->local_rank);
  joined_ = connect_world(*place, {.device = device_, .timeout = timeout_of_world(flags)});
  check_same_flags(*joined_, in_common(flags, configuration, device_));
}

std::string RunWorld::describe() const {
  std::string text = std::to_string(world().size()) +
                     (world().size() == 1 ? " process, " : " processes, ") +
                     name_of(spread_.strategy);
  if (spread_.reduce_dtype) {
    text += std::string(", gradients summed in ") + dtype_name(*spread_.reduce_dtype);
  }
  return text + (spread_.cpu_offload ? ", parts in main memory" : "");
}

void RunWorld::check_same(const std::string& own, const std::string& what) const {
  const auto all = world().gather(own, "comparing " + what);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    TORCH_CHECK(all[rank] == all.front(),
                "[world] ",
                what,
                ": rank ",
                rank,
                " has another content there than rank 0. All processes must read the same");
  }
}

void RunWorld::check_same_model(const std::string& folder) const {
  std::string key;
  world().together("looking at " + folder, [&] { key = is_joined() ? model_key(folder) : ""; });
  check_same(key, folder);
}

void RunWorld::reporting_failure(const std::function<void()>& work) const {
  try {
    work();
  } catch (const c10::Error& error) {
    report_failure(world(), error.what_without_backtrace());
    throw;
  } catch (const std::exception& error) {
    report_failure(world(), error.what());
    throw;
  }
}

void RunWorld::first_at_leisure(const std::string& what, const std::function<void()>& work) const {
  if (world().size() == 1) {
    work();
    return;
  }
  // In a thread of its own, so that this one can talk.
  std::future<void> result;
  if (world().is_first()) {
    result = std::async(std::launch::async, work);
  }
  constexpr auto kPause = std::chrono::seconds(1);
  const std::string goes_on = "goes on";
  bool is_done = false;
  while (!is_done) {
    const bool waits = result.valid() && result.wait_for(kPause) != std::future_status::ready;
    is_done = world().from_first(waits ? goes_on : "", what) != goes_on;
  }
  world().together(what, [&] {
    if (result.valid()) {
      result.get();  // or its error
    }
  });
}

bool RunWorld::cuts_models() const {
  return is_joined() && spread_.strategy == Parallel::Fsdp;
}

LoadOptions RunWorld::load_options(std::optional<at::ScalarType> dtype, bool may_be_mapped) const {
  LoadOptions options;
  options.mapped = may_be_mapped && cuts_models();
  if (!options.mapped) {
    options.dtype = dtype;
    options.device = device_;
  }
  return options;
}

void RunWorld::spread_trained(Model& model, std::optional<at::ScalarType> dtype) const {
  if (is_joined()) {
    spread_over(model, dtype);
  }
}

void RunWorld::spread_frozen(Model& model, std::optional<at::ScalarType> dtype) const {
  if (cuts_models()) {
    spread_over(model, dtype);
  }
}

void RunWorld::spread_over(Model& model, std::optional<at::ScalarType> dtype) const {
  SpreadOptions options = spread_;
  if (cuts_models()) {
    options.device = device_;
    options.dtype = dtype;
  }
  spread(model, world(), options);
}

}  // namespace reprise::app
