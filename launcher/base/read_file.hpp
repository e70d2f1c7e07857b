// Whole files of text that a user names.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace hvdrun {

// The file's bytes; none when it is not there. Errors (kExitUsage) begin with `cannot` ("cannot
// read the config file F"): the system's words, or that the file has more than `largest` bytes,
// whole MiB: a bound against reading a data file, or /dev/zero.
Result<std::optional<std::string>> read_file_if_there(const std::filesystem::path& file,
                                                      std::size_t largest,
                                                      const std::string& cannot);

// The same; it is an error when the file is not there.
Result<std::string> read_file(const std::filesystem::path& file, std::size_t largest,
                              const std::string& cannot);

}  // namespace hvdrun
