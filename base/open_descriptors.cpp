#include "base/open_descriptors.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace hvdrun {

void close_all_but(std::initializer_list<int> kept) {
  std::error_code error;
  std::vector<int> open;
  for (std::filesystem::directory_iterator file("/proc/self/fd", error), end; !error && file != end;
       file.increment(error))
    open.push_back(std::atoi(file->path().filename().c_str()));
  for (const int fd : open)
    if (fd > STDERR_FILENO && std::find(kept.begin(), kept.end(), fd) == kept.end()) ::close(fd);
}

}  // namespace hvdrun
