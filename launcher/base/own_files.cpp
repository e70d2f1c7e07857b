#include "base/own_files.hpp"

#include <system_error>

namespace hvdrun {

std::filesystem::path own_share_folder() {
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  return executable.parent_path().parent_path() / "share";
}

}  // namespace hvdrun
