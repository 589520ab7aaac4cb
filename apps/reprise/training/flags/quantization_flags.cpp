// Flags for a quantised base model, in bitsandbytes' and TRL's names.
#include "reprise/training/flags/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

}  // namespace

void add_quantization_flags(FlagList& list) {
  list.begin_group("Quantisation of the weights below LoRA adapters");
  list.add("load_in_4bit",
           &Flags::load_in_4bit,
           "BOOL",
           "Quantise the linear layers except the head to 4 bits (QLoRA)")
      .aliases({"ds.load_in_4bit"});
  list.add("load_in_8bit",
           &Flags::load_in_8bit,
           "BOOL",
           "Quantise the linear layers except the head to 8 bits (LLM.int8)");
  list.add("bnb_4bit_quant_type", &Flags::bnb_4bit_quant_type, "NAME", "Format of 4-bit weights")
      .one_of({"nf4", "fp4"});
  list.add("use_bnb_nested_quant",
           &Flags::use_bnb_nested_quant,
           "BOOL",
           "Double quantisation: the scales of 4-bit weights take 8 bits")
      .aliases({"bnb_4bit_use_double_quant"});
  list.add("bnb_4bit_compute_dtype",
           &Flags::bnb_4bit_compute_dtype,
           "NAME",
           "Data type of products with 4-bit weights")
      .one_of({"float32", "bfloat16", "float16"})
      .if_unset("that of the input, or with --bf16 bfloat16");
  list.add("bnb_4bit_quant_storage",
           &Flags::bnb_4bit_quant_storage,
           "NAME",
           "Data type that 4-bit weights are stored in")
      .one_of({"uint8"});
  list.add("llm_int8_skip_modules",
           &Flags::llm_int8_skip_modules,
           "NAME...",
           "Linear layers that are not quantised, besides the head")
      .many_with_commas();
}

}  // namespace reprise::app
