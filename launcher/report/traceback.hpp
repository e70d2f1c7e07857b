// Tracebacks of Python among the last lines that a rank has printed. Pure functions.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

// Returns the exception if the lines end with a traceback: the line right below its last place.
// Python prints it before it runs what is to run at its exit. Otherwise returns an empty text.
std::string exception_at_end(const std::vector<std::string>& lines);

// What a user of mpi4py can do about a rank that waits in its exit after an exception.
inline constexpr const char* kMpi4pyAdvice =
    "a program with mpi4py ends all ranks in such a case if it is started by python3 -m mpi4py";

}  // namespace hvdrun
