// A regular file that any thread may read at any offset.
//
// Messages of errors are without the path ("cannot be opened: Permission denied"), because the
// caller adds what the file is.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace libhvd {

class InputFile {
 public:
  // Error: it cannot be opened, or is no regular file (a pipe would never end).
  static Result<InputFile> open(const std::string& path);

  std::uint64_t size() const { return size_; }  // in bytes, when it was opened
  // Fills all of `bytes`. Error: the file ends earlier, or cannot be read.
  Result<void> read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  InputFile(Fd fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {}

  Fd fd_;
  std::uint64_t size_;
};

}  // namespace libhvd
