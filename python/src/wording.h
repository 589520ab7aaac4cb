// The engine's messages in the words of a Python program.
#pragma once

#include <string>
#include <string_view>

namespace reprise::python {

/// Whether the engine says it.
bool is_ours(std::string_view message);

/// Names what the message names as Python spells it, and adds what torch.utils.checkpoint says in
/// the same case, which is what people search for and programs match. Other texts stay as they are.
std::string worded(std::string message);

}  // namespace reprise::python
