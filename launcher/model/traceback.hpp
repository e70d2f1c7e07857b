// Tracebacks of Python, and what C++ says in their place, in what ranks print: where one begins and
// ends, and whether its exception says only that another rank has gone. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

inline constexpr std::string_view kTracebackHeader = "Traceback (most recent call last):";

// How the C++ runtime (libstdc++) begins to say that nothing has caught an exception.
inline constexpr std::string_view kTerminateHeader = "terminate called ";

// Returns the line without PyTorch's "[rank3]: " before it.
std::string_view without_rank_prefix(std::string_view line);

// Does so if the prefix names this rank.
std::string_view without_rank_prefix(std::string_view line, int rank);

// Returns whether a line below the header is still part of the traceback, or leads to the next one
// of a chain. The first one that is not, is the exception.
bool continues_traceback(std::string_view line);

// Returns the exception if the lines end with a traceback: the line right below its last place.
// Python prints it before it runs what is to run at its exit. Otherwise returns an empty text.
std::string exception_at_end(const std::vector<std::string>& lines);

// Returns the exception of the last traceback, also if other lines follow. Returns an empty text if
// there is none.
std::string last_exception(const std::vector<std::string>& lines);

// Returns whether the exception is what a rank gets when a peer has gone: a connection that was
// closed by the other side. Such a text can have another cause, so that it never hides a first
// failure.
bool is_peer_error(std::string_view exception);

// Returns the lines with the cause: those from the last traceback (or chain of tracebacks) on.
// Without a traceback, returns them without progress bars and Python's warnings, unless nothing
// would be left.
std::vector<std::string> cause_lines(const std::vector<std::string>& lines);

// What a user of mpi4py can do about a rank that waits in its exit after an exception.
inline constexpr const char* kMpi4pyAdvice =
    "a program with mpi4py ends all ranks in such a case if it is started by python3 -m mpi4py";

}  // namespace hvdrun
