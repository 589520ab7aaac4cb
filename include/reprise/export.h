// Symbol visibility. The library is built with hidden symbols; what a user may link against, catch
// or derive from carries REPRISE_API. Everything process-wide lives in one shared object, so there
// is no static variant.
#pragma once

#define REPRISE_API __attribute__((visibility("default")))
