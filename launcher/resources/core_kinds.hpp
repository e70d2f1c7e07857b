// Which cores of the running machine are of a slower kind, from its sysfs. hwloc knows it too, but
// opens several files for each hardware thread of any machine. This opens two files on most
// machines, and one more per core on small ones. For any thread. It cannot fail: what the kernel
// does not say stays unknown.
#pragma once

#include "model/placement.hpp"

#include <filesystem>
#include <vector>

namespace hvdrun {

// Reads a list such as "0-3,8", as sysfs has it. Returns no number if the file is not there.
std::vector<int> read_cpu_list(const std::filesystem::path& file);

// Sets the kind of each core. `sysfs` is where sysfs is mounted.
void read_core_kinds(const std::filesystem::path& sysfs, std::vector<Core>& cores);

// Returns whether a core of the lower speed is of a slower kind. Cores of one kind may differ by
// noise, or because some reach a higher clock than others.
bool is_slower_kind(long speed, long fastest);

}  // namespace hvdrun
