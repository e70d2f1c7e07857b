#include "data_path.hpp"

#include <filesystem>
#include <system_error>

namespace digits {

std::string default_data_path() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto installed = program.parent_path() / DIGITS_INSTALLED_DATA;
  if (!failed && std::filesystem::exists(installed, failed)) {
    return installed.lexically_normal().string();
  }
  return std::filesystem::path(DIGITS_SOURCE_DATA).lexically_normal().string();
}

}  // namespace digits
