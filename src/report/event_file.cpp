// EventFile: file names and tags. event_encoding.h has the binary format.
#include "report/append_file.h"
#include "report/event_encoding.h"

#include <reprise/io/file.h>
#include <reprise/report/event_file.h>

#include <c10/util/Exception.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>

namespace reprise {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// "localhost" if the name is unknown or cannot be part of a file name.
std::string host_name() {
  std::array<char, 256> name{};
  const bool is_known = ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  const std::string host = is_known ? name.data() : "localhost";
  return host.find('/') == std::string::npos ? host : "localhost";
}

/// A unique name: the count distinguishes files of one process within a second.
std::string file_name(double wall_time) {
  static std::atomic<uint64_t> count = 0;
  return "events.out.tfevents." + std::to_string(static_cast<int64_t>(wall_time)) + "." +
         host_name() + "." + std::to_string(::getpid()) + "." + std::to_string(count++);
}

/// The tags of transformers' TensorBoardCallback.
std::string tag_of(const std::string& key) {
  constexpr std::string_view kEval = "eval_";
  return key.starts_with(kEval) ? "eval/" + key.substr(kEval.size()) : "train/" + key;
}

report::Scalars scalars_of(const Json& record) {
  report::Scalars scalars;
  for (const auto& [key, value] : record.items()) {
    if (value.is_number() && key != "step") {
      scalars.emplace_back(tag_of(key), value.get<double>());
    } else if (value.is_object()) {
      for (const auto& [part, number] : value.items()) {
        if (number.is_number()) {
          scalars.emplace_back(key + "/" + part, number.get<double>());
        }
      }
    }
  }
  return scalars;
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder) : EventFile(folder, now()) {}

EventFile::EventFile(const std::filesystem::path& folder, double wall_time) {
  create_folder(folder);
  file_ = std::make_unique<report::AppendFile>(folder / file_name(wall_time),
                                               report::AppendFile::Mode::Create);
  file_->append(report::framed(report::version_event(wall_time)));
}

EventFile::~EventFile() = default;

void EventFile::add_scalar(const std::string& tag, double value, int64_t step, double wall_time) {
  file_->append(report::framed(report::scalar_event({{tag, value}}, {wall_time, step})));
}

void EventFile::add_record(const Json& record, double wall_time) {
  const auto step = record.is_object() ? record.find("step") : record.end();
  TORCH_CHECK(step != record.end() && step->is_number_integer(),
              "[tensorboard] expected a record with an integer \"step\", found ",
              kind_of(record));
  const report::Scalars scalars = scalars_of(record);
  if (!scalars.empty()) {
    file_->append(report::framed(report::scalar_event(scalars, {wall_time, step->get<int64_t>()})));
  }
}

void EventFile::add_text(const std::string& tag, std::string_view text, double wall_time) {
  // TensorBoard recognises text by this suffix.
  file_->append(report::framed(
      report::text_event(tag + "/text_summary", text, {.wall_time = wall_time, .step = 0})));
}

void EventFile::mark_restart_after(int64_t step, double wall_time) {
  file_->append(report::framed(report::restart_event({wall_time, step + 1})));
}

const std::filesystem::path& EventFile::path() const {
  return file_->path();
}

}  // namespace reprise
