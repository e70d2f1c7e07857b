// The Python module `horovod` that is hvd (--horovod), and where it is.
#pragma once

#include "base/result.hpp"

#include <filesystem>

namespace hvdrun::cli {

// Folders for PYTHONPATH.
struct PythonFolders {
  std::filesystem::path horovod;  // has the module horovod
  std::filesystem::path hvd;      // has the package hvd; empty where Python has it by itself
};

// In `share` (own_share_folder()), where they are installed, or in `source`, the folder python/ of
// the checkout that hvdrun was built from. pip puts hvd among Python's own packages.
// Error (kExitLauncher): in neither.
Result<PythonFolders> find_horovod_module(const std::filesystem::path& share,
                                          const std::filesystem::path& source);

// The same for this hvdrun.
Result<PythonFolders> find_horovod_module();

}  // namespace hvdrun::cli
