#include "data_path.hpp"

#include <filesystem>
#include <system_error>

namespace digits {

std::string default_data_path() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path() / DIGITS_DATA).lexically_normal().string();
}

}  // namespace digits
