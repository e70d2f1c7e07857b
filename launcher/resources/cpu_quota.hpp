// How much processor time the cgroup of this process allows: what containers are limited to
// (docker run --cpus, limits.cpu in Kubernetes), while they see all processors of the machine.
// Any thread.
//
// Source: Linux Documentation/admin-guide/cgroup-v2.rst (cpu.max), scheduler/sched-bwc.rst
// (cpu.cfs_quota_us), cgroups(7) (/proc/self/cgroup).
#pragma once

#include <filesystem>
#include <optional>

namespace hvdrun {

// Returns the time as a number of processors, 2.5 for example: the least that this process's cgroup
// and those above it allow. Returns nullopt if there is no limit, or it cannot be read. Tests
// replace the paths: the process's list of cgroups, and where cgroups are mounted.
std::optional<double> cpu_quota(const std::filesystem::path& list = "/proc/self/cgroup",
                                const std::filesystem::path& mount = "/sys/fs/cgroup");

}  // namespace hvdrun
