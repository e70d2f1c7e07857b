#include "base/files.hpp"

#include "common/file_content.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

namespace hvdrun {

Result<std::optional<std::string>> read_file_if_there(const std::filesystem::path& file,
                                                      std::size_t largest,
                                                      const std::string& cannot) {
  auto text = read_content(file, largest + 1);
  if (!text && (text.error() == ENOENT || text.error() == ENOTDIR))
    return std::optional<std::string>();
  if (!text) return fail_errno(cannot, text.error(), kExitUsage);
  if (text->size() > largest)
    return fail(cannot + ": it is larger than " + std::to_string(largest >> 20U) + " MiB",
                kExitUsage);
  return std::optional<std::string>(std::move(*text));
}

Result<std::string> read_file(const std::filesystem::path& file, std::size_t largest,
                              const std::string& cannot) {
  HVD_TRY(auto text, read_file_if_there(file, largest, cannot));
  if (!text) return fail_errno(cannot, ENOENT, kExitUsage);
  return std::move(*text);
}

std::filesystem::path own_executable() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path own_share_folder() {
  return own_executable().parent_path().parent_path() / "share";
}

}  // namespace hvdrun
