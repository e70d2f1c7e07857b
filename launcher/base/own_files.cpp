#include "base/own_files.hpp"

#include <system_error>

namespace hvdrun {

std::filesystem::path own_executable() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path own_share_folder() {
  return own_executable().parent_path().parent_path() / "share";
}

}  // namespace hvdrun
