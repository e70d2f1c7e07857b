// Which GPUs a run with several devices in one process uses. Pure functions, for any thread.
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>

namespace hvdrun::scale {

// Reads what `hvdrun -np N --dry-run --json` has printed, with hvdrun's own lines before it.
// Returns CUDA_VISIBLE_DEVICES with the GPUs of these N ranks. Errors (kExitUsage): they are on
// several hosts; a rank has no GPU; the host has not been asked.
Result<std::string> visible_devices(std::string_view dry_run);

}  // namespace hvdrun::scale
