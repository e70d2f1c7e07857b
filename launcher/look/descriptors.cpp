#include "look/descriptors.hpp"

#include "common/fd.hpp"
#include "common/result.hpp"
#include "look/proc_files.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kSearchLimit{300};
constexpr std::size_t kMostNamed = 3;

#ifndef SYS_pidfd_open
constexpr long SYS_pidfd_open = 434;
#endif
#ifndef SYS_pidfd_getfd
constexpr long SYS_pidfd_getfd = 438;
#endif

std::string fd_name(int fd) {
  return "fd " + std::to_string(fd);
}

// Returns a descriptor of ours for the same open file.
Fd same_file(pid_t pid, int fd) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return {};
  return Fd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), fd, 0)));
}

std::string peer_of(int socket) {
  std::string bytes(sizeof(sockaddr_storage), '\0');
  socklen_t size = static_cast<socklen_t>(bytes.size());
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(bytes.data()), &size) != 0) return {};
  bytes.resize(size);
  return describe_address(bytes);
}

std::string own_address(int socket) {
  std::string bytes(sizeof(sockaddr_storage), '\0');
  socklen_t size = static_cast<socklen_t>(bytes.size());
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(bytes.data()), &size) != 0) return {};
  bytes.resize(size);
  return describe_address(bytes);
}

std::string waiting_bytes(int socket) {
  int unread = 0;
  int unsent = 0;
  std::string words;
  if (::ioctl(socket, SIOCINQ, &unread) == 0 && unread > 0)
    words += ", " + std::to_string(unread) + " bytes unread";
  if (::ioctl(socket, SIOCOUTQ, &unsent) == 0 && unsent > 0)
    words += ", " + std::to_string(unsent) + " bytes unsent";
  return words;
}

// Returns whether a path may lie in a file system that answers or does not: not a device, and not
// one of the kernel's own files.
bool is_file(std::string_view path) {
  const bool is_device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
  return path.starts_with("/") && !is_device && !path.starts_with("/proc/") &&
         !path.starts_with("/sys/");
}

// Returns the access mode from /proc/PID/fdinfo/FD: O_RDONLY, O_WRONLY or O_RDWR.
int access_of(pid_t pid, int fd) {
  const auto fields = read_fields(pid, "fdinfo/" + std::to_string(fd));
  const auto flags = fields.find("flags");
  if (flags == fields.end()) return O_RDONLY;
  return static_cast<int>(std::strtol(flags->second.c_str(), nullptr, 8) & O_ACCMODE);
}

}  // namespace

std::string describe_address(const std::string& bytes) {
  sa_family_t family = 0;
  if (bytes.size() < sizeof family) return {};
  std::memcpy(&family, bytes.data(), sizeof family);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family == AF_INET && bytes.size() >= sizeof(sockaddr_in)) {
    sockaddr_in address{};
    std::memcpy(&address, bytes.data(), sizeof address);
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(address.sin_port));
  }
  if (family == AF_INET6 && bytes.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 address{};
    std::memcpy(&address, bytes.data(), sizeof address);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(address.sin6_port));
  }
  if (family == AF_UNIX && bytes.size() > sizeof family) {
    std::string path = bytes.substr(sizeof family);
    if (path[0] == '\0') path[0] = '@';
    return path.substr(0, path.find('\0'));
  }
  return {};
}

std::string Descriptors::describe(int fd) {
  const std::string link = read_proc_link(pid_, "fd/" + std::to_string(fd));
  if (link.empty()) return fd_name(fd);
  if (link.starts_with("socket:")) return socket(fd, link);
  if (link.starts_with("pipe:")) return pipe(fd, link);
  return file(fd, link);
}

std::string Descriptors::socket(int fd, const std::string& link) const {
  const std::string name = fd_name(fd) + ": socket";
  const Fd same = same_file(pid_, fd);
  if (!same) return name + " " + link.substr(7);
  int domain = 0;
  socklen_t size = sizeof domain;
  ::getsockopt(same.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size);
  int listens = 0;
  size = sizeof listens;
  ::getsockopt(same.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
  const std::string local = own_address(same.get());
  if (listens != 0) return name + " that listens on " + (local.empty() ? "?" : local);
  const std::string peer = peer_of(same.get());
  const std::string kind = domain == AF_UNIX ? "Unix socket" : "socket";
  std::string words = fd_name(fd) + ": " + kind;
  if (!peer.empty())
    words += " to " + peer;
  else if (domain == AF_UNIX && !local.empty())
    words += " " + local;
  else if (domain == AF_INET || domain == AF_INET6)
    words += " that is not connected";
  return words + (domain == AF_UNIX ? "" : waiting_bytes(same.get()));
}

// Finds the pipes of all processes that can be seen, as far as time allows; first those of this
// one.
void Descriptors::find_pipes() {
  if (!pipes_.empty()) return;
  const auto deadline = std::chrono::steady_clock::now() + kSearchLimit;
  add_pipes_of(pid_);
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return;
  while (const dirent* entry = ::readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);  // NOLINT: 0 if it is no number
    if (pid <= 0 || pid == ::getpid() || pid == pid_) continue;
    if (std::chrono::steady_clock::now() > deadline) break;
    add_pipes_of(pid);
  }
  ::closedir(proc);
}

void Descriptors::add_pipes_of(pid_t pid) {
  DIR* directory = ::opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = ::readdir(directory)) {
    std::array<char, 64> target{};
    const ssize_t size =
        ::readlinkat(::dirfd(directory), entry->d_name, target.data(), target.size());
    if (size <= 0) continue;
    const std::string link(target.data(), static_cast<std::size_t>(size));
    if (link.starts_with("pipe:"))
      pipes_[link].emplace_back(pid, std::atoi(entry->d_name));  // NOLINT: digits
  }
  ::closedir(directory);
}

// Returns the processes that have the pipe open for an access.
std::vector<pid_t> Descriptors::holders(const std::string& link, int access) {
  find_pipes();
  std::vector<pid_t> found;
  for (const auto& [pid, fd] : pipes_[link]) {
    const int has = access_of(pid, fd);
    if ((has == access || has == O_RDWR) && (found.empty() || found.back() != pid))
      found.push_back(pid);
    if (found.size() > kMostNamed) break;
  }
  return found;
}

std::string Descriptors::pipe(int fd, const std::string& link) {
  const bool reads = access_of(pid_, fd) == O_RDONLY;
  const auto others = holders(link, reads ? O_WRONLY : O_RDONLY);
  std::string names;
  for (std::size_t index = 0; index < others.size(); ++index) {
    const bool is_own = others[index] == pid_;
    const std::string name = index >= kMostNamed ? "…"
                             : is_own            ? "itself"
                                                 : pid_and_name(others[index]);
    names += (index == 0 ? "" : ", ") + name;
  }
  const std::string does = reads ? " written by " : " read by ";
  return fd_name(fd) + ": pipe" +
         (names.empty() ? " whose other end no process has that can be seen" : does + names);
}

void Descriptors::read_mounts() {
  if (!mounts_.empty()) return;
  std::istringstream lines(read_proc(pid_, "mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    // "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS … - TYPE SOURCE …"
    std::istringstream words(line);
    int id = 0;
    std::string skipped;
    Mount mount;
    words >> id >> skipped >> skipped >> skipped >> mount.point;
    const auto dash = line.find(" - ");
    if (!words || dash == std::string::npos) continue;
    mount.type = line.substr(dash + 3, line.find(' ', dash + 3) - dash - 3);
    mounts_[id] = std::move(mount);
  }
}

// Returns null if it was opened in another mount namespace.
const Descriptors::Mount* Descriptors::mount_of(int fd) {
  const auto fields = read_fields(pid_, "fdinfo/" + std::to_string(fd));
  const auto id = fields.find("mnt_id");
  read_mounts();
  const auto mount =
      id == fields.end() ? mounts_.end() : mounts_.find(std::atoi(id->second.c_str()));  // NOLINT
  return mount == mounts_.end() ? nullptr : &mount->second;
}

const Descriptors::Mount* Descriptors::mount_of(const std::string& path) {
  if (!path.starts_with("/")) return nullptr;
  read_mounts();
  const Mount* best = nullptr;
  for (const auto& [id, mount] : mounts_) {
    const bool inside =
        mount.point == "/" || path == mount.point || path.starts_with(mount.point + "/");
    if (inside && (best == nullptr || mount.point.size() >= best->point.size())) best = &mount;
  }
  return best;
}

std::string Descriptors::file(int fd, const std::string& link) {
  const Mount* mount = mount_of(fd);
  if (mount == nullptr) return fd_name(fd) + ": " + describe_path(link);
  const bool shown = link.starts_with("/");
  return fd_name(fd) + ": " + link + (shown ? " (" + mount->type + ")" : "");
}

std::string Descriptors::describe_path(const std::string& path) {
  const Mount* mount = mount_of(path);
  return path + (mount == nullptr ? "" : " (" + mount->type + ")");
}

std::string Descriptors::file_system_of(int fd) {
  const std::string link = read_proc_link(pid_, "fd/" + std::to_string(fd));
  if (!is_file(link)) return {};
  const Mount* mount = mount_of(fd);
  if (mount == nullptr) mount = mount_of(link);
  return mount == nullptr ? "" : mount->type;
}

std::string Descriptors::file_system_of(const std::string& path) {
  const Mount* mount = is_file(path) ? mount_of(path) : nullptr;
  return mount == nullptr ? "" : mount->type;
}

std::vector<int> Descriptors::watched_by(int epoll_fd) const {
  std::vector<int> watched;
  std::istringstream lines(read_proc(pid_, "fdinfo/" + std::to_string(epoll_fd)));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    int fd = 0;
    if (words >> name >> fd && name == "tfd:") watched.push_back(fd);
  }
  return watched;
}

pid_t Descriptors::holder_of_lock() const {
  // "1: FLOCK ADVISORY WRITE PID …" holds; "1: -> FLOCK ADVISORY WRITE PID …" waits for it.
  std::istringstream lines(read_proc(::getpid(), "../locks"));
  std::string holder_id;
  pid_t holder = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id;
    std::string word;
    words >> id >> word;
    const bool waits = word == "->";
    if (waits) words >> word;
    std::string skipped;
    pid_t pid = 0;
    words >> skipped >> skipped >> pid;
    if (!waits) {
      holder_id = id;
      holder = pid;
    } else if (pid == pid_ && id == holder_id) {
      return holder;
    }
  }
  return 0;
}

}  // namespace hvdrun
