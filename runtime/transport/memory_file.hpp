// Shared memory in no file system: a file without a name (memfd_create(2)). There is room for it
// as long as the machine has memory, however small /dev/shm is (in containers, often 64 MB).
//
// The other ranks of the host reach it through a symbolic link to /proc/PID/fd/N, which needs no
// room in its directory. The link may lead a rank to another file, for example in another pid
// namespace; the rank notices that by the contents.
//
// A plain owner of the descriptor and the link, for one thread at a time.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

namespace libhvd {

// Maps a part of a file of shared memory. Error: it cannot be mapped.
Result<Mapping> map_shared(int file, std::uint64_t begin, std::size_t bytes);

// Returns the memory of a part to the system. The part is then zero.
void release_range(int file, std::uint64_t begin, std::size_t bytes);

class MemoryFile {
 public:
  // Makes one for this process and those that inherit it. Error: the system gives none.
  static Result<MemoryFile> create();
  // Makes one with a link at `path`, which remove_link() or the destructor removes. Error: the file
  // or the link cannot be made.
  static Result<MemoryFile> create(std::string path);
  // Opens it through another process's link. Error: the link leads nowhere, or may not be followed.
  static Result<MemoryFile> open(const std::string& path);
  // Opens what this descriptor of a process leads to.
  static Result<MemoryFile> open_in(pid_t pid, int descriptor);

  MemoryFile() = default;  // empty
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) noexcept;
  ~MemoryFile() { remove_link(); }

  explicit operator bool() const { return static_cast<bool>(file_); }
  int get() const { return file_.get(); }

  // Reserves memory for these bytes. Returns 0 or errno. It is ENOMEM also if they are more than
  // 7/8 of the memory that the machine has left: with less the kernel would kill some process.
  int reserve(std::uint64_t begin, std::size_t bytes) const;

  void remove_link();

 private:
  explicit MemoryFile(Fd file) : file_(std::move(file)) {}

  Fd file_;
  std::string link_;  // "": this object has made none
};

}  // namespace libhvd
