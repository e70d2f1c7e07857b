// Reads whole files that a user names, and finds hvdrun's own files. Blocks the caller's thread.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace hvdrun {

// Reads a file for which hvdrun only looks. Returns its bytes; nullopt if there is no such file, or
// this user may not see or read it. Errors have exit code kExitUsage and begin with `cannot`
// ("cannot read the config file F"): the system refuses, or the file is larger than `largest`
// bytes, a multiple of 1 MiB. The bound keeps us from reading a data file or /dev/zero.
Result<std::optional<std::string>> read_file_if_there(const std::filesystem::path& file,
                                                      std::size_t largest,
                                                      const std::string& cannot);

// Reads a file that the user names. Like read_file_if_there, but it is an error if it cannot be
// opened.
Result<std::string> read_file(const std::filesystem::path& file, std::size_t largest,
                              const std::string& cannot);

// Returns the path of this executable. Call it early: if the file is replaced or removed, the
// kernel returns "… (deleted)".
std::filesystem::path own_executable();

// Returns the folder "share" beside the executable's folder: /usr/share for /usr/bin/hvdrun,
// build/share for build/bin/hvdrun. It may not exist.
std::filesystem::path own_share_folder();

}  // namespace hvdrun
