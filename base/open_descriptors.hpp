// Which descriptors this process has open. For a process with one thread, which opens none
// meanwhile.
#pragma once

#include <initializer_list>

namespace hvdrun {

// Closes all descriptors after stderr but those that are given. It reads /proc/self/fd, because
// glibc 2.28 and Linux 5.8 lack close_range(2). Without /proc it closes nothing.
void close_all_but(std::initializer_list<int> kept);

}  // namespace hvdrun
