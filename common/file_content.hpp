// Reads the content of a file by read(2): of /proc, of /sys, or of a disk. For any thread; blocks
// it.
//
// A file of /proc can fail after it was opened: with ESRCH if its process has ended, with EPERM if
// a security module forbids it. The standard library's streams throw then where nothing catches it,
// so nothing else in this project reads a file with them (scripts/code_layout --check).
#pragma once

#include "common/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace common {

// A program's longest useful file of /proc: the mappings of a large process.
inline constexpr std::size_t kMostContent = std::size_t{16} << 20U;

// Returns the file's bytes from `offset` on, at most `most` of them. Error: errno of open(2),
// lseek(2) or read(2), also if a part could be read. A call that a signal has interrupted is made
// again.
Result<std::string, int> read_content(const std::string& path, std::size_t most = kMostContent,
                                      std::uint64_t offset = 0);

// Returns the same from the file's beginning; "" if it cannot be read.
std::string content_of(const std::string& path, std::size_t most = kMostContent);

// Returns the file's first line without its newline; "" if there is none, or it cannot be read.
std::string first_line_of(const std::string& path);

}  // namespace common
