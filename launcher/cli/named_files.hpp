// The files that a command line names beside its program: the script of Python or of a shell, and
// the program behind `nice`, `env` and the like. Without one of them every rank fails alike.
//
// For any thread; reads the folder. A file that may be in another place when the ranks start, in a
// container or behind a `cd`, is not looked for.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun::cli {

struct MissingFile {
  std::string name;
  bool is_script = false;
  std::string similar;  // a script that may be meant; empty: none
  Error error;          // kExitNotFound or kExitNotExecutable; it says all of this
};

// Returns the first of these files that is not here; nullopt if all are. The program itself is not
// among them. `wrap`: the command of --wrap that starts it, or an empty text. `folder`: that of the
// ranks.
std::optional<MissingFile> find_missing_file(const std::vector<std::string>& command,
                                             const std::string& wrap,
                                             const Environment& environment,
                                             const std::filesystem::path& folder);

}  // namespace hvdrun::cli
