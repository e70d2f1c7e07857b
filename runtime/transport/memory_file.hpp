// Shared memory in no file system: a file that has no name (memfd_create(2)) and for which there is
// room as long as the machine has memory, however small /dev/shm is (in containers, often 64 MB).
//
// The other ranks of the host reach it through a symbolic link to /proc/PID/fd/N, which needs no
// room where it stands. Whom the link leads to another file, in another pid namespace say, finds
// out by what stands in the file.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace libhvd {

class MemoryFile {
 public:
  // For this process and those that inherit it.
  static Result<MemoryFile> create();
  // With a link at `path`, which goes with the object unless remove_link() was called before.
  static Result<MemoryFile> create(std::string path);
  // Through another process's link. Error: it leads nowhere, or may not be followed.
  static Result<MemoryFile> open(const std::string& path);

  MemoryFile() = default;  // none
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) noexcept;
  ~MemoryFile() { remove_link(); }

  explicit operator bool() const { return static_cast<bool>(file_); }
  int get() const { return file_.get(); }

  // Memory for these bytes. Gives errno; 0: it is there. ENOMEM also when the machine has hardly so
  // much left: to take it would make the kernel end somebody.
  int reserve(std::uint64_t begin, std::size_t bytes) const;

  void remove_link();

 private:
  explicit MemoryFile(Fd file) : file_(std::move(file)) {}

  Fd file_;
  std::string link_;  // empty: none of ours
};

}  // namespace libhvd
