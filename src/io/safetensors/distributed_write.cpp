#include "io/safetensors/distributed_write.h"

#include "io/safetensors/checkpoint_plan.h"
#include "io/safetensors/part_assignment.h"
#include "io/safetensors/safetensors_format.h"
#include "io/safetensors/safetensors_write.h"
#include "io/shared_file.h"

#include <reprise/io/json.h>

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace reprise::io {
namespace {

using Files = std::vector<std::unique_ptr<AtomicFile>>;

constexpr int64_t kSliceBytes = int64_t{8} << 20;

struct PlannedFile {
  std::filesystem::path path;
  FileLayout layout;
};

void write_part(SharedFile& file, const TensorInfo& info, const TensorPart& part) {
  const auto item = static_cast<int64_t>(c10::elementSize(info.dtype));
  const at::Tensor values = part.values.detach().reshape({-1});
  const int64_t slice = kSliceBytes / item;
  for (int64_t done = 0; done < values.numel(); done += slice) {
    const int64_t count = std::min(slice, values.numel() - done);
    const at::Tensor plain =
        values.narrow(0, done, count).to(at::kCPU, info.dtype).resolve_neg().contiguous();
    file.write_at(
        info.begin + static_cast<uint64_t>((part.begin + done) * item),
        std::as_bytes(std::span(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes())));
  }
}

/// Creates all files in the first process, complete except for the tensors.
Files make_files(const std::vector<PlannedFile>& planned) {
  Files files;
  for (const auto& [path, layout] : planned) {
    files.push_back(std::make_unique<AtomicFile>(path));
    files.back()->write(layout.head);
    files.back()->extend_to(layout.bytes);
    files.back()->sync();
  }
  return files;
}

std::string names_of(const Files& files) {
  std::string names;
  for (const auto& file : files) {
    names += file->temporary().string() + '\0';
  }
  return names;
}

/// Writes this process's parts into the files with these temporary names.
void write_assigned_parts(const World& world,
                          const std::vector<PlannedFile>& planned,
                          const std::string& names,
                          const std::vector<const TensorPart*>& parts) {
  std::unordered_multimap<std::string_view, const TensorPart*> by_name;
  for (const TensorPart* part : parts) {
    by_name.emplace(part->name, part);
  }
  std::istringstream rest(names);
  for (const auto& [path, layout] : planned) {
    std::string name;
    std::getline(rest, name, '\0');
    SharedFile file(name, layout.bytes, world.rank());
    for (const TensorInfo& info : layout.tensors) {
      const auto [first, last] = by_name.equal_range(info.name);
      for (auto own = first; own != last; ++own) {
        write_part(file, info, *own->second);
      }
    }
    file.sync();
  }
}

void write_files(const World& world,
                 const std::vector<PlannedFile>& planned,
                 const std::vector<TensorInfo>& tensors,
                 const std::vector<TensorPart>& parts,
                 const std::function<void(const Files&)>& publish) {
  std::vector<const TensorPart*> assigned;
  for (const AssignedPart& part : assign_parts(world, tensors, parts)) {
    assigned.push_back(part.part);
  }
  const std::string what = planned.front().path.string();
  Files files;
  world.run_on_first("making " + what, [&] { files = make_files(planned); });
  const std::string names = world.broadcast(names_of(files), "the name of " + what);
  world.run_on_all("writing " + what,
                   [&] { write_assigned_parts(world, planned, names, assigned); });
  world.run_on_first("finishing " + what, [&] { publish(files); });
}

/// All tensors that any process has a part of, in the same order in every process.
std::vector<TensorInfo> tensors_of_all(const World& world, const std::vector<TensorPart>& parts) {
  Json own = Json::array();
  for (const TensorPart& part : parts) {
    if (part.values.defined()) {
      own.push_back({part.name, static_cast<int>(part.values.scalar_type()), part.shape});
    }
  }
  std::vector<TensorInfo> tensors;
  std::set<std::string> names;
  for (const std::string& said : world.all_gather(own.dump(), "tensors to be saved")) {
    for (const Json& each : Json::parse(said)) {
      const auto name = each[0].get<std::string>();
      if (names.insert(name).second) {
        tensors.push_back({name,
                           static_cast<at::ScalarType>(each[1].get<int>()),
                           each[2].get<std::vector<int64_t>>(),
                           0,
                           0});
      }
    }
  }
  return tensors;
}

}  // namespace

void write_safetensors_distributed(const World& world,
                                   const std::filesystem::path& path,
                                   const std::vector<TensorPart>& parts,
                                   const std::map<std::string, std::string>& metadata) {
  const auto tensors = tensors_of_all(world, parts);
  const std::vector<PlannedFile> planned = {{path, layout_of(tensors, metadata)}};
  write_files(world, planned, tensors, parts, [](const Files& files) { files.front()->commit(); });
}

void write_checkpoint_distributed(const World& world,
                                  const std::filesystem::path& folder,
                                  const std::vector<TensorInfo>& tensors,
                                  const std::vector<TensorPart>& parts,
                                  uint64_t max_shard_bytes,
                                  const std::string& stem) {
  const auto plan = plan_checkpoint(tensors, max_shard_bytes, stem);
  std::vector<PlannedFile> planned;
  for (const auto& shard : plan.shards) {
    std::vector<TensorInfo> inside;
    for (const size_t i : shard.tensors) {
      inside.push_back(tensors[i]);
    }
    planned.push_back({folder / shard.name, layout_of(std::move(inside), {})});
  }
  write_files(
      world, planned, tensors, parts, [&](const Files& files) { publish(plan, folder, files); });
}

}  // namespace reprise::io
