#include "train/budget/out_of_memory.h"

#include "train/objectives/forward_passes.h"

#include <reprise/memory.h>
#include <reprise/model/lora.h>
#include <reprise/report/units.h>

#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise {

namespace {

std::string bytes(int64_t count) {
  return human_bytes(static_cast<double>(count));
}

// Full recomputation keeps the inputs of the blocks.
int64_t block_inputs(const MemoryDemand& demand, const Model& model) {
  return model.config().layers * demand.rows * demand.length * model.config().hidden *
         static_cast<int64_t>(c10::elementSize(model.dtype()));
}

std::string used(const MemoryClasses& classes) {
  std::string text;
  const auto add = [&](const char* name, int64_t count) {
    if (count > 0) {
      text += std::string("\n  ") + name + ": " + bytes(count);
    }
  };
  add("parameters", classes.parameters);
  add("gradients", classes.gradients);
  add("optimizer", classes.optimizer);
  add("activations", classes.activations);
  add("recomputed working set", classes.recompute);
  add("logits", classes.logits);
  add("other", classes.other);
  return text;
}

std::string batch_of(int64_t rows, int64_t length) {
  return std::to_string(rows) + " x " + std::to_string(length) + " tokens";
}

/// One setting that helps, and how.
std::string piece_of_advice(const std::string& option, const std::string& effect) {
  return "\n  " + option + ": " + effect;
}

// If nothing is counted there is no figure, but the error must still be shown.
int64_t bytes_reached(const at::Device& device) {
  try {
    return peak_bytes(device);
  } catch (const c10::Error&) {
    return 0;
  }
}

std::string advice(const PassDemand& demand) {
  std::string text;
  if (demand.rows > 1) {
    text += piece_of_advice("`" + demand.batch_option + "` " + std::to_string(demand.rows / 2),
                            "half of what a batch needs, and the same figures");
  }
  if (demand.length > 1) {
    text += piece_of_advice("`max_length` " + std::to_string(demand.length / 2),
                            "half of what rows as long as this one need");
  }
  return text;
}

std::string advice(const MemoryDemand& demand, const Model& model) {
  std::string text;
  const auto add = [&](const std::string& option, const std::string& effect) {
    text += piece_of_advice(option, effect);
  };
  const int64_t activations =
      demand.classes.activations + demand.classes.recompute + demand.classes.other;
  const int64_t kept = block_inputs(demand, model);
  if (model.checkpointed_blocks().empty()) {
    add("`gradient_checkpointing`",
        "keeps " + bytes(kept) + " of activations instead of the " + bytes(activations) +
            " or more that the step had reached");
  } else if (static_cast<int64_t>(model.checkpointed_blocks().size()) < model.config().layers) {
    add("`gradient_checkpointing` without ratio, layers or every_n_layers",
        "checkpoints the other " +
            std::to_string(model.config().layers -
                           static_cast<int64_t>(model.checkpointed_blocks().size())) +
            " blocks too");
  }
  if (demand.rows > 1) {
    add("`per_device_train_batch_size` " + std::to_string(demand.rows / 2) +
            " `gradient_accumulation_steps` " + std::to_string(demand.micro_batches * 2),
        "about half of the activations, " + bytes(activations / 2) + " less, for the same step");
  }
  if (demand.length > 1) {
    add("`max_length` " + std::to_string(demand.length / 2),
        "half of the activations of rows as long as this one");
  }
  if (!has_lora(model)) {
    add("`lora_r` 16",
        "gradients and optimizer state of the adapters only, " +
            bytes(demand.classes.gradients + demand.classes.optimizer) + " less");
  }
  return text;
}

}  // namespace

std::string explain_out_of_memory(const std::string& error,
                                  const MemoryDemand& demand,
                                  const Model& model) {
  return "out of memory in step " + std::to_string(demand.step) + ", with a micro-batch of " +
         batch_of(demand.rows, demand.length) + ". In use were " + bytes(demand.classes.total()) +
         ":" + used(demand.classes) + "\nWhat would help:" + advice(demand, model) +
         "\nThe last checkpoint is as it was. The allocator said: " + error;
}

std::string explain_out_of_memory(const std::string& error,
                                  const PassDemand& demand,
                                  const Model& model) {
  MemoryClasses classes;
  classes.parameters = parameter_bytes(model);
  classes.other = std::max<int64_t>(bytes_reached(model.device()) - classes.parameters, 0);
  return "out of memory in " + demand.what + ", with a batch of " +
         batch_of(demand.rows, demand.length) + ". In use were " + bytes(classes.total()) + ":" +
         used(classes) + "\nWhat would help:" + advice(demand) + "\nThe allocator said: " + error;
}

void explaining_memory(const std::function<void()>& work,
                       const std::function<std::string(const std::string& error)>& explain) {
  try {
    work();
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) {
      throw;
    }
    const auto* own = dynamic_cast<const c10::Error*>(&error);
    TORCH_CHECK(false, explain(own != nullptr ? own->what_without_backtrace() : error.what()));
  }
}

}  // namespace reprise
