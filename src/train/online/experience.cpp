#include "train/online/experience.h"

#include "data/batch/cumulative_lengths.h"
#include "train/objectives/forward_passes.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace reprise {

namespace {

struct Field {
  const char* name;
  at::Tensor Experience::*member;
  bool has_tokens = true;  // if it has two dimensions, they are (N, C)
};

constexpr std::array kFields = {Field{"ids", &Experience::ids, false},
                                Field{"prompt_lengths", &Experience::prompt_lengths, false},
                                Field{"lengths", &Experience::lengths, false},
                                Field{"mask", &Experience::mask},
                                Field{"sampling_logprobs", &Experience::sampling_logprobs},
                                Field{"old_logprobs", &Experience::old_logprobs},
                                Field{"reference_logprobs", &Experience::reference_logprobs},
                                Field{"values", &Experience::values},
                                Field{"returns", &Experience::returns},
                                Field{"advantages", &Experience::advantages}};
constexpr const char* kPrefix = "experience/";

void check_loaded(const Experience& experience, const std::string& file) {
  const auto fits = [&](const at::Tensor& tensor, at::ScalarType dtype, int64_t dims) {
    return tensor.defined() && tensor.scalar_type() == dtype && tensor.dim() == dims &&
           tensor.size(0) == experience.size();
  };
  bool is_whole = fits(experience.ids, at::kLong, 2) && experience.size() > 0 &&
                  fits(experience.prompt_lengths, at::kLong, 1) &&
                  fits(experience.lengths, at::kLong, 1) && fits(experience.mask, at::kBool, 2) &&
                  experience.advantages.defined();
  for (const auto& field : kFields) {
    const auto& tensor = experience.*field.member;
    if (!is_whole || !tensor.defined()) {
      continue;
    }
    is_whole =
        tensor.dim() >= 1 && tensor.dim() <= 2 && tensor.size(0) == experience.size() &&
        (!field.has_tokens || tensor.dim() == 1 || tensor.size(1) == experience.mask.size(1));
  }
  is_whole = is_whole && experience.prompt_lengths.min().item<int64_t>() >= 1 &&
             experience.lengths.min().item<int64_t>() >= 1 &&
             experience.lengths.max().item<int64_t>() <= experience.mask.size(1) &&
             (experience.prompt_lengths + experience.lengths).max().item<int64_t>() <=
                 experience.ids.size(1);
  TORCH_CHECK(is_whole, file, ": the tensors of its generation batch do not match");
}

// See TokenBatch::targets. labels is (B, T), on the CPU.
TargetSummary summary_of(const at::Tensor& labels) {
  const auto targets = labels.slice(1, 1).contiguous();
  TargetSummary summary;
  summary.add({targets.const_data_ptr<int64_t>(), static_cast<size_t>(targets.numel())});
  return summary;
}

// Rows have `width` tokens; the first `ends` of them are text, the rest is padding.
void add_runs(TokenBatch& tokens, const at::Tensor& ends, int64_t width, const at::Device& device) {
  data::CumulativeLengths runs;
  for (int64_t row = 0; row < ends.size(0); ++row) {
    const auto length = ends[row].item<int64_t>();
    runs.add(length);
    runs.add(width - length);
  }
  tokens.document_starts = runs.tensor().to(device);
  tokens.longest_document = runs.longest();
}

}  // namespace

double Experience::tokens() const {
  return mask.sum().item<double>();
}

NamedTensors Experience::state() const {
  NamedTensors state;
  for (const auto& field : kFields) {
    if (const auto& tensor = this->*field.member; tensor.defined()) {
      state.emplace_back(std::string(kPrefix) + field.name, tensor.contiguous());
    }
  }
  return state;
}

void Experience::load(const TensorFile& file) {
  for (const auto& field : kFields) {
    const auto* info = file.find(std::string(kPrefix) + field.name);
    this->*field.member = info == nullptr ? at::Tensor() : file.view(*info).clone();
  }
  if (ids.defined()) {
    check_loaded(*this, file.path().string());
  }
}

void Experience::reorder(const at::Tensor& order) {
  for (const auto& field : kFields) {
    if (auto& tensor = this->*field.member; tensor.defined()) {
      tensor = tensor.index_select(0, order);
    }
  }
}

ExperienceBatch slice_experience(const Experience& experience,
                                 int64_t first,
                                 int64_t count,
                                 const at::Device& device) {
  ExperienceBatch rows;
  const int64_t last = std::min(first + count, experience.size());
  const auto prompts = experience.prompt_lengths.slice(0, first, last);
  const auto lengths = experience.lengths.slice(0, first, last);
  const auto ends = prompts + lengths;
  const int64_t width = ends.max().item<int64_t>();
  rows.longest_completion = lengths.max().item<int64_t>();
  for (const auto& field : kFields) {
    if (const auto& tensor = experience.*field.member; tensor.defined()) {
      auto part = tensor.slice(0, first, last);
      if (field.has_tokens && tensor.dim() == 2) {
        part = part.slice(1, 0, rows.longest_completion);
      }
      rows.part.*field.member = part.to(device);
    }
  }
  const auto ids = experience.ids.slice(0, first, last).slice(1, 0, width);
  const auto positions = at::arange(width).unsqueeze(0);
  const auto is_text = positions < ends.unsqueeze(1);
  const auto is_completion = is_text.logical_and(positions >= prompts.unsqueeze(1));
  rows.tokens.input_ids = ids.contiguous().to(device);
  rows.tokens.attention_mask = is_text.to(at::kLong).to(device);
  const auto labels = ids.masked_fill(is_completion.logical_not(), kIgnoredLabel);
  rows.tokens.labels = labels.to(device);
  rows.tokens.targets = summary_of(labels);
  rows.tokens.tokens = ends.sum().item<int64_t>();
  add_runs(rows.tokens, ends, width, device);
  rows.targets = targets_of(rows.tokens);
  rows.starts = (prompts - 1).to(device);
  return rows;
}

at::Tensor ExperienceBatch::completion_values(const at::Tensor& values) const {
  const auto offsets = at::arange(longest_completion, starts.options()).unsqueeze(0);
  const auto index = (starts.unsqueeze(1) + offsets).clamp_max(values.size(1) - 1);
  return values.gather(1, index);
}

Experience make_experience(const std::vector<SampledSequence>& rows, int64_t pad_id) {
  int64_t width = 0;
  int64_t completion = 0;
  for (const auto& row : rows) {
    width = std::max(width, std::ssize(row.prompt) + std::ssize(row.completion));
    completion = std::max(completion, std::ssize(row.completion));
  }
  const auto count = std::ssize(rows);
  Experience experience;
  experience.ids = at::full({count, width}, pad_id, at::kLong);
  experience.prompt_lengths = at::empty({count}, at::kLong);
  experience.lengths = at::empty({count}, at::kLong);
  experience.mask = at::zeros({count, completion}, at::kBool);
  experience.sampling_logprobs = at::zeros({count, completion}, at::kFloat);
  for (int64_t i = 0; i < count; ++i) {
    const auto& row = rows[static_cast<size_t>(i)];
    const auto prompt = std::ssize(row.prompt);
    const auto length = std::ssize(row.completion);
    experience.ids[i].slice(0, 0, prompt).copy_(at::tensor(row.prompt, at::kLong));
    experience.ids[i]
        .slice(0, prompt, prompt + length)
        .copy_(at::tensor(row.completion, at::kLong));
    experience.prompt_lengths[i] = prompt;
    experience.lengths[i] = length;
    experience.mask[i].slice(0, 0, length).fill_(true);
    experience.sampling_logprobs[i].slice(0, 0, length).copy_(at::tensor(row.logprobs));
  }
  return experience;
}

}  // namespace reprise
