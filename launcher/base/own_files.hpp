// Where this hvdrun's own files are.
#pragma once

#include <filesystem>

namespace hvdrun {

// The executable. Ask early: when the file is replaced or removed, the kernel says "… (deleted)".
std::filesystem::path own_executable();

// The folder share beside that of its executable, wherever that was put: /usr/share for
// /usr/bin/hvdrun. Nothing says that it is there: hvdrun may be run from where it was built.
std::filesystem::path own_share_folder();

}  // namespace hvdrun
