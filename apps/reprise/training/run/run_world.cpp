#include "reprise/training/run/run_world.h"

#include "reprise/adapter_folder.h"
#include "reprise/device.h"
#include "reprise/training/flags/parallel_flags.h"

#include <reprise/data/dataset.h>
#include <reprise/dist/connect.h>
#include <reprise/dist/error_text.h>
#include <reprise/io/dtype.h>
#include <reprise/model/lora.h>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <future>
#include <string_view>
#include <system_error>
#include <vector>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

// Values that must be the same in all processes: all flags and the device type.
Json in_common(const TrainingFlags& flags, Json configuration, const c10::Device& device) {
  configuration["device"] = device.is_cpu() ? "cpu" : "cuda";
  return {{"command", to_string(flags.objective)}, {"flags", std::move(configuration)}};
}

std::string difference(int64_t rank, const Json& own, const Json& first) {
  const std::string rank_has = "\n  rank " + std::to_string(rank) + " has ";
  if (own["command"] != first["command"]) {
    return rank_has + own["command"].get<std::string>() + ", rank 0 has " +
           first["command"].get<std::string>();
  }
  std::string text;
  for (const auto& [name, value] : first["flags"].items()) {
    const Json here = own["flags"].value(name, Json());
    if (here != value) {
      text += rank_has;
      text += "--" + name + " ";
      text += here.dump() + ", rank 0 has " + value.dump();
    }
  }
  return text;
}

void check_same_flags(const World& world, const Json& own) {
  std::string differences;
  const auto all = world.all_gather(own.dump(), "comparing flags");
  const Json first = Json::parse(all.front());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    differences += difference(static_cast<int64_t>(rank), Json::parse(all[rank]), first);
  }
  TORCH_CHECK(
      differences.empty(), "[world] processes of one run must have the same flags:", differences);
}

// The size of a file and a hash of pieces spread over it, as reading all of it takes long; null if
// it does not exist. Not its modification time, which differs between copies on machines.
Json sample_of(const fs::path& file) {
  constexpr uintmax_t kPiece = uintmax_t{1} << 16;
  constexpr uintmax_t kPieces = 17;  // smaller files are read completely
  std::error_code not_there;
  const uintmax_t size = fs::file_size(file, not_there);
  if (not_there) {
    return {};
  }
  const uintmax_t piece = std::min(size, kPiece);
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(piece * kPieces, '\0');
  for (uintmax_t i = 0; i < kPieces; ++i) {
    stream.seekg(static_cast<std::streamoff>((size - piece) * i / (kPieces - 1)));
    stream.read(bytes.data() + piece * i, static_cast<std::streamsize>(piece));
  }
  TORCH_CHECK(stream.good(), file.string(), ": cannot be read");
  return Json::array({size, bytes.empty() ? "" : c10::sha1(bytes).str()});
}

Json samples_of(const std::vector<fs::path>& files) {
  Json samples = Json::object();
  for (const auto& file : files) {
    samples[file.string()] = sample_of(file);
  }
  return samples;
}

}  // namespace

RunWorld::RunWorld(const TrainingFlags& flags, const Json& configuration)
    : sharded_(shard_options(flags)) {
  const auto rendezvous = rendezvous_from_environment();
  check_world_effects(flags, rendezvous ? std::optional(rendezvous->size) : std::nullopt);
  if (!rendezvous) {
    device_ = choose_device(flags.device);
    return;
  }
  device_ = choose_device(flags.device, rendezvous->local_rank);
  joined_ = connect_world(*rendezvous, {.device = device_, .timeout = timeout_of_world(flags)});
  check_same_flags(*joined_, in_common(flags, configuration, device_));
}

std::string RunWorld::describe() const {
  std::string text = std::to_string(world().size()) +
                     (world().size() == 1 ? " process, " : " processes, ") +
                     name_of(sharded_.strategy);
  if (sharded_.reduce_dtype) {
    text += std::string(", gradients summed in ") + dtype_name(*sharded_.reduce_dtype);
  }
  return text + (sharded_.cpu_offload ? ", shards in CPU memory" : "");
}

void RunWorld::check_same(const std::string& what, const std::function<Json()>& look) const {
  if (world().size() == 1) {
    return;
  }
  Json own;
  world().run_on_all("looking at " + what, [&] { own = look(); });
  const auto all = world().all_gather(own.dump(), "comparing " + what);
  const Json first = Json::parse(all.front());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const Json theirs = Json::parse(all[rank]);
    Json names = first;
    names.update(theirs);
    for (const auto& [name, _] : names.items()) {
      TORCH_CHECK(theirs.value(name, Json()) == first.value(name, Json()),
                  "[world] ",
                  name,
                  ": rank ",
                  rank,
                  " has other content there than rank 0. All processes must read the same");
    }
  }
}

void RunWorld::check_same_model(const fs::path& folder) const {
  check_same(folder.string(), [&] {
    std::vector<fs::path> files{folder / "config.json", folder / "adapter_config.json"};
    std::error_code not_there;
    for (const auto& entry : fs::directory_iterator(folder, not_there)) {
      const auto extension = entry.path().extension();
      if (extension == ".safetensors" || extension == ".bin") {
        files.push_back(entry.path());
      }
    }
    return samples_of(files);
  });
}

void RunWorld::check_same_start(const Model& model) const {
  check_same("where the adapters begin", [&] {
    Json hashes = Json::object();
    for (const auto& [name, parameter] : trained_parameters(model)) {
      const auto values = parameter.detach().to(at::kCPU).contiguous();
      hashes[name] = std::hash<std::string_view>()(
          {static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
    }
    return hashes;
  });
}

void RunWorld::check_same_data(const TrainingFlags& flags) const {
  check_same(flags.data, [&] {
    std::vector<fs::path> files;
    for (const auto& names : {flags.data, flags.eval_data, flags.ptx_data}) {
      if (!names.empty()) {
        for (const auto& file : parse_data_files(names)) {
          files.push_back(file.path);
        }
      }
    }
    if (!flags.chat_template.empty()) {
      files.emplace_back(flags.chat_template);
    }
    Json samples = samples_of(files);
    const std::string texts = tokenizer_folder(ModelFolders{flags.model, flags.adapter});
    samples["tokenizer of " + texts] = tokenizer_key(texts);
    return samples;
  });
}

void RunWorld::reporting_failure(const std::function<void()>& work) const {
  try {
    work();
  } catch (const std::exception& error) {
    report_failure(world(), error_text(error));
    throw;
  }
}

void RunWorld::without_timeout(const std::string& what,
                               bool participates,
                               const std::function<void()>& work) const {
  if (world().size() == 1) {
    work();
    return;
  }
  // In another thread, so that this one can communicate.
  std::future<void> result;
  if (participates) {
    result = std::async(std::launch::async, work);
  }
  constexpr auto kPause = std::chrono::seconds(1);
  bool goes_on = true;
  while (goes_on) {
    const bool waits = result.valid() && result.wait_for(kPause) != std::future_status::ready;
    goes_on = world().max(waits ? 1 : 0, what) > 0;
  }
  world().run_on_all(what, [&] {
    if (result.valid()) {
      result.get();  // rethrows its exception
    }
  });
}

bool RunWorld::shards_models() const {
  return is_joined() && sharded_.strategy == Parallel::Fsdp;
}

LoadOptions RunWorld::load_options(std::optional<at::ScalarType> dtype, bool may_be_mapped) const {
  LoadOptions options;
  options.mapped = may_be_mapped && shards_models();
  if (!options.mapped) {
    options.dtype = dtype;
    options.device = device_;
  }
  return options;
}

void RunWorld::shard_trained(Model& model, std::optional<at::ScalarType> dtype) const {
  if (is_joined()) {
    shard_over(model, dtype);
  }
}

void RunWorld::shard_frozen(Model& model, std::optional<at::ScalarType> dtype) const {
  if (shards_models()) {
    shard_over(model, dtype);
  }
}

void RunWorld::shard_over(Model& model, std::optional<at::ScalarType> dtype) const {
  ShardOptions options = sharded_;
  if (shards_models()) {
    options.device = device_;
    options.dtype = dtype;
  }
  shard(model, world(), options);
}

}  // namespace reprise::app
