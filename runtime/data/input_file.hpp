// A regular file that is read at any place by any thread.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace libhvd {

// Errors are without the path, "cannot be opened: Permission denied": the caller knows more.
class InputFile {
 public:
  // Error: it cannot be opened, or is something else (a pipe would never end).
  static Result<InputFile> open(const std::string& path);

  std::uint64_t size() const { return size_; }  // when it was opened
  // Fills all of `bytes`. Error: the file ends before.
  Outcome read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  InputFile(Fd fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {}

  Fd fd_;
  std::uint64_t size_;
};

}  // namespace libhvd
