#include "io/input_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace libhvd {

Result<InputFile> InputFile::open(const std::string& path) {
  // O_NONBLOCK, because opening a named pipe waits for its writer.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno("cannot be opened", errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno("cannot be looked at", errno);
  if (!S_ISREG(info.st_mode)) return fail(HVD_ERROR_SYSTEM, "is not a regular file");
  return InputFile(std::move(fd), static_cast<std::uint64_t>(info.st_size));
}

Result<void> InputFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("cannot be read", errno);
    if (count == 0)
      return fail(HVD_ERROR_SYSTEM, "ends at byte " + std::to_string(offset) + ", " +
                                        std::to_string(bytes.size()) +
                                        " bytes early; was it changed meanwhile?");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

}  // namespace libhvd
