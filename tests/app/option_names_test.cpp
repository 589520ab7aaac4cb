// The library names options in backticks; the program prints them as flags.
#include "reprise/training/flags/option_names.h"

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

using app::with_flag_names;

TEST(OptionNames, BecomeFlags) {
  EXPECT_EQ(with_flag_names("lower `learning_rate`"), "lower --learning_rate");
  EXPECT_EQ(
      with_flag_names("`per_device_train_batch_size` 4 `gradient_accumulation_steps` 2: half"),
      "--per_device_train_batch_size 4 --gradient_accumulation_steps 2: half");
  EXPECT_EQ(with_flag_names("(`sync_ref_model`), `kl_coef`, `critic_learning_rate`"),
            "(--sync_ref_model), --kl_coef, --critic_learning_rate");
}

TEST(OptionNames, OtherTextStaysAsItIs) {
  for (const char* text : {"",
                           "no name",
                           "`reprise rm` writes it",
                           "'data' is undefined",
                           "one ` alone, learning_rate without",
                           "`no_such_option`",
                           "``"}) {
    EXPECT_EQ(with_flag_names(text), text);
  }
  // A backtick that is not the beginning of a name does not hide the next one.
  EXPECT_EQ(with_flag_names("a ` and `seed`"), "a ` and --seed");
}

}  // namespace
}  // namespace reprise::testing
