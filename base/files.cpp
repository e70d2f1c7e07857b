#include "base/files.hpp"

#include "common/fd.hpp"

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hvdrun {

namespace {

// Returns the file's bytes; nullopt, with errno, if it cannot be opened.
Result<std::optional<std::string>> read_opened(const std::filesystem::path& file,
                                               std::size_t largest, const std::string& cannot) {
  const Fd descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) return std::optional<std::string>();
  std::string text;
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t count = ::read(descriptor.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(cannot, errno, kExitUsage);
    if (count == 0) return std::optional<std::string>(std::move(text));
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > largest)
      return fail(cannot + ": it is larger than " + std::to_string(largest >> 20) + " MiB",
                  kExitUsage);
  }
}

}  // namespace

Result<std::optional<std::string>> read_file_if_there(const std::filesystem::path& file,
                                                      std::size_t largest,
                                                      const std::string& cannot) {
  HVD_TRY(auto text, read_opened(file, largest, cannot));
  if (!text && errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != EPERM)
    return fail_errno(cannot, errno, kExitUsage);
  return text;
}

Result<std::string> read_file(const std::filesystem::path& file, std::size_t largest,
                              const std::string& cannot) {
  HVD_TRY(auto text, read_opened(file, largest, cannot));
  if (!text) return fail_errno(cannot, errno, kExitUsage);
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
