#include "transport/memory_file.hpp"

#include "common/fd.hpp"
#include "common/mapping.hpp"

#include <cerrno>
#include <fstream>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace libhvd {
namespace {

// Reads MemAvailable: "an estimate of how much memory is available for starting new applications"
// (proc(5)). Returns the largest number if the system does not report it.
std::uint64_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name, unit;
  std::uint64_t kib = 0;
  while (meminfo >> name >> kib) {
    if (name == "MemAvailable:") return kib * 1024;
    std::getline(meminfo, unit);
  }
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

Result<MemoryFile> MemoryFile::create() {
  Fd file(::memfd_create("hvd", MFD_CLOEXEC));
  if (!file) return fail_errno("cannot make shared memory", errno);
  return MemoryFile(std::move(file));
}

Result<MemoryFile> MemoryFile::create(std::string path) {
  HVD_TRY(MemoryFile made, create());
  const std::string target =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(made.get());
  if (::symlink(target.c_str(), path.c_str()) != 0)
    return fail_errno("cannot make a link as " + path, errno);
  made.link_ = std::move(path);
  return made;
}

Result<MemoryFile> MemoryFile::open(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return fail_errno("cannot open " + path, errno);
  return MemoryFile(std::move(file));
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : file_(std::move(other.file_)), link_(std::exchange(other.link_, {})) {}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(link_, other.link_);
  return *this;
}

int MemoryFile::reserve(std::uint64_t begin, std::size_t bytes) const {
  if (bytes > available_bytes() / 8 * 7) return ENOMEM;
  return reserve_in_file(file_.get(), begin, bytes);
}

void MemoryFile::remove_link() {
  if (!link_.empty()) ::unlink(link_.c_str());
  link_.clear();
}

}  // namespace libhvd
