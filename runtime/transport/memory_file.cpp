#include "transport/memory_file.hpp"

#include "common/fd.hpp"
#include "common/file_content.hpp"
#include "common/mapping.hpp"

#include <cerrno>
#include <limits>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace libhvd {
namespace {

// Reads MemAvailable: "an estimate of how much memory is available for starting new applications"
// (proc(5)). Returns the largest number if the system does not report it.
std::uint64_t available_bytes() {
  std::istringstream meminfo(content_of("/proc/meminfo"));
  std::string name, unit;
  std::uint64_t kib = 0;
  while (meminfo >> name >> kib) {
    if (name == "MemAvailable:") return kib * 1024;
    std::getline(meminfo, unit);
  }
  return std::numeric_limits<std::uint64_t>::max();
}

std::string path_in_proc(pid_t pid, int descriptor) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
}

}  // namespace

Result<Mapping> map_shared(int file, std::uint64_t begin, std::size_t bytes) {
  void* const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(begin));
  if (address == MAP_FAILED)
    return fail_errno("cannot map " + std::to_string(bytes) + " bytes of shared memory", errno);
  return Mapping(address, bytes);
}

void release_range(int file, std::uint64_t begin, std::size_t bytes) {
  ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
              static_cast<off_t>(bytes));
}

Result<MemoryFile> MemoryFile::create() {
  Fd file(::memfd_create("hvd", MFD_CLOEXEC));
  if (!file) return fail_errno("cannot make shared memory", errno);
  return MemoryFile(std::move(file));
}

Result<MemoryFile> MemoryFile::create(std::string path) {
  HVD_TRY(MemoryFile made, create());
  const std::string target = path_in_proc(::getpid(), made.get());
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

Result<MemoryFile> MemoryFile::open_in(pid_t pid, int descriptor) {
  return open(path_in_proc(pid, descriptor));
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
