#include "fixtures.hpp"

#include <fstream>
#include <sstream>

namespace hvdrun {

Placement placement_of(int ranks, int per_host) {
  Placement placement;
  placement.size = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const int host = rank / per_host;
    if (static_cast<std::size_t>(host) == placement.hosts.size())
      placement.hosts.emplace_back().host = "n" + std::to_string(host);
    RankPlacement& placed = placement.hosts.back().ranks.emplace_back();
    placed.rank = rank;
    placed.local_rank = rank % per_host;
  }
  return placement;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string read_available(int fd) {
  std::string text;
  char buffer[65536];
  for (ssize_t count; (count = ::read(fd, buffer, sizeof buffer)) > 0;)
    text += std::string_view(buffer, static_cast<std::size_t>(count));
  return text;
}

Pipe pipe_with_nonblocking_reader() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

}  // namespace hvdrun
