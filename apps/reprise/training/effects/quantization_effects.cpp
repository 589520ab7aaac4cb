// Flags of a quantised base model.
#include "reprise/training/effects/flag_effects.h"

#include <c10/util/Exception.h>

namespace reprise::app {

void check_quantization_effects(const TrainingFlags& flags) {
  TORCH_CHECK(!flags.load_in_4bit || !flags.load_in_8bit,
              "--load_in_8bit with --load_in_4bit: give one of them");
  if (!flags.load_in_4bit) {
    refuse(flags,
           {"bnb_4bit_quant_type",
            "use_bnb_nested_quant",
            "bnb_4bit_compute_dtype",
            "bnb_4bit_quant_storage"},
           "without --load_in_4bit");
  }
  if (!flags.load_in_4bit && !flags.load_in_8bit) {
    refuse(flags, {"llm_int8_skip_modules"}, "without --load_in_4bit or --load_in_8bit");
    return;
  }
  const std::string flag = flags.load_in_4bit ? "--load_in_4bit" : "--load_in_8bit";
  TORCH_CHECK(trains_lora(flags),
              flag,
              ": quantised weights cannot be trained, only adapters on them: give --lora_r 16 too");
  TORCH_CHECK(flags.parallel != "fsdp",
              flag,
              " with --parallel fsdp, which cannot shard a quantised model: every process holds it "
              "as a whole, under --parallel ddp or zero2");
}

}  // namespace reprise::app
