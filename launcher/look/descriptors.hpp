// Says what a descriptor of another process is: a pipe and who has its other end, a socket and
// its peer, a file and its file system. Opens no file of a file system, because that may hang. For
// any thread.
//
// Source: proc(5); pidfd_getfd(2), by which this process gets the same socket for a moment.
#pragma once

#include "look/memory.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

class Descriptors {
 public:
  explicit Descriptors(pid_t pid) : pid_(pid) {}

  // Returns "fd 5: socket to 10.0.0.2:41000", "fd 0: pipe written by 4711 (sh)",
  // "fd 3: /data/a (nfs4)".
  std::string describe(int fd);

  // Returns the descriptors that an epoll descriptor watches.
  std::vector<int> watched_by(int epoll_fd) const;

  // Returns a path with the type of its file system: "/data/a (nfs4)".
  std::string describe_path(const std::string& path);

  // Returns "nfs4" for a file of a file system. Returns "" for sockets, pipes and devices, and for
  // files of the kernel.
  std::string file_system_of(int fd);
  std::string file_system_of(const std::string& path);

  // Returns the process that holds the lock on a file that this process waits for; 0: unknown.
  pid_t holder_of_lock() const;

 private:
  struct Mount {
    std::string point;
    std::string type;
  };
  void read_mounts();
  std::string socket(int fd, const std::string& link) const;
  std::string pipe(int fd, const std::string& link);
  void find_pipes();
  void add_pipes_of(pid_t pid);
  std::vector<pid_t> holders(const std::string& link, int access);
  std::string file(int fd, const std::string& link);
  const Mount* mount_of(int fd);
  const Mount* mount_of(const std::string& path);

  pid_t pid_;
  std::map<int, Mount> mounts_;  // by their ids
  std::map<std::string, std::vector<std::pair<pid_t, int>>>
      pipes_;  // by name: who has it open, as which fd
};

// Returns "10.0.0.2:41000", "[fe80::1]:80" or the path of a Unix socket for the bytes of a socket
// address; "" for others.
std::string describe_address(const std::string& bytes);

}  // namespace hvdrun
