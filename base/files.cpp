#include "base/files.hpp"

#include "common/file_content.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

namespace hvdrun {
namespace {

// Returns the text, or the error that there is more of it.
Result<std::string> checked_size(std::string text, std::size_t largest, const std::string& cannot) {
  if (text.size() <= largest) return text;
  return fail(cannot + ": it is larger than " + std::to_string(largest >> 20U) + " MiB",
              kExitUsage);
}

// Returns whether the file is not there for this user.
bool is_hidden(int error) {
  return error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM;
}

}  // namespace

Result<std::optional<std::string>> read_file_if_there(const std::filesystem::path& file,
                                                      std::size_t largest,
                                                      const std::string& cannot) {
  auto read = read_content(file, largest + 1);
  if (!read && is_hidden(read.error())) return std::optional<std::string>();
  if (!read) return fail_errno(cannot, read.error(), kExitUsage);
  HVD_TRY(auto text, checked_size(std::move(*read), largest, cannot));
  return std::optional<std::string>(std::move(text));
}

Result<std::string> read_file(const std::filesystem::path& file, std::size_t largest,
                              const std::string& cannot) {
  auto read = read_content(file, largest + 1);
  if (!read) return fail_errno(cannot, read.error(), kExitUsage);
  return checked_size(std::move(*read), largest, cannot);
}

std::filesystem::path own_executable() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path own_share_folder() {
  return own_executable().parent_path().parent_path() / "share";
}

}  // namespace hvdrun
