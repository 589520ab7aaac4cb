// What a process that has proved itself asks of the store, as bytes, and the store's answers.
#pragma once

#include <reprise/export.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace reprise::dist {

/// Takes whole requests from the front of `in` and adds their answers to `out`; what is left of
/// `in` is the beginning of the next. False: what came is no request, and its connection is to be
/// closed.
REPRISE_API bool take_requests(c10d::Store& values, std::string& in, std::string& out);

}  // namespace reprise::dist
