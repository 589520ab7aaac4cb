// Symbol visibility. The library is built with hidden symbols; REPRISE_API marks what users may
// call, catch or derive from. Process-wide state must exist exactly once, so there is no static
// library.
#pragma once

#define REPRISE_API __attribute__((visibility("default")))
