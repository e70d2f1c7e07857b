// Finds the Python module `horovod` that is hvd (--horovod). Functions for any thread.
#pragma once

#include "base/result.hpp"

#include <filesystem>

namespace hvdrun::cli {

// Folders for PYTHONPATH.
struct PythonFolders {
  std::filesystem::path horovod;  // has the module horovod
  std::filesystem::path hvd;      // has the package hvd; empty if it is not in `share`
};

// Looks in `share` (own_share_folder()), where the build and the installation put the two. pip puts
// hvd among Python's packages instead. Error (kExitLauncher): horovod is not there.
Result<PythonFolders> find_horovod_module(const std::filesystem::path& share);

// Looks in the share folder of this hvdrun.
Result<PythonFolders> find_horovod_module();

}  // namespace hvdrun::cli
