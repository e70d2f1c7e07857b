#include "common/file_content.hpp"

#include "common/fd.hpp"
#include "common/uninterrupted.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace common {

Result<std::string, int> read_content(const std::string& path, std::size_t most,
                                      std::uint64_t offset) {
  const Fd file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!file) return errno;
  if (offset != 0 && ::lseek(file.get(), static_cast<off_t>(offset), SEEK_SET) < 0) return errno;
  std::string content;
  std::array<char, 16384> part;
  while (content.size() < most) {
    const auto size = std::min(part.size(), most - content.size());
    const auto got = uninterrupted([&] { return ::read(file.get(), part.data(), size); });
    if (got < 0) return errno;
    if (got == 0) break;
    content.append(part.data(), static_cast<std::size_t>(got));
  }
  return content;
}

std::string content_of(const std::string& path, std::size_t most) {
  auto content = read_content(path, most);
  return content ? std::move(*content) : std::string();
}

std::string first_line_of(const std::string& path) {
  const auto content = content_of(path);
  return content.substr(0, content.find('\n'));
}

}  // namespace common
