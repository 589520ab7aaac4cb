// `reprise launch --nproc 4 sft …` means `reprise launch --nproc 4 -- sft …`, as with torchrun.
#pragma once

#include <string>
#include <vector>

namespace reprise::app {

/// The words of a command line (without the program), with "--" before the command that launch is
/// to run, unless it is there. Other command lines stay as they are.
std::vector<std::string> with_separator(std::vector<std::string> words);

}  // namespace reprise::app
