// Which cores share an L3 cache, and which are of a slower kind, from the running machine's sysfs.
// hwloc knows both, but opens a dozen files per hardware thread for it, and every start of hvdrun
// would wait for that. This opens two files per L3 cache. It cannot fail: what the kernel does not
// say stays unknown.
#pragma once

#include "model/placement.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvdrun {

// Reads a list such as "0-3,8", as sysfs has it. Returns no number if the file is not there.
std::vector<int> read_cpu_list(const std::filesystem::path& file);

// Sets l3_cache and kind of each core. `sysfs` is where sysfs is mounted.
void read_core_details(const std::filesystem::path& sysfs, std::vector<Core>& cores);

// Returns whether a core of the lower speed is of a slower kind. Cores of one kind may differ by
// noise, or because some reach a higher clock than others.
bool is_slower_kind(long speed, long fastest);

}  // namespace hvdrun
