// A log file: each line with the time before it.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <mutex>
#include <string>
#include <string_view>

namespace libhvd {

// Usable from any thread. Without a file (the ranks that do not write) it takes everything and
// drops it.
class Log {
 public:
  Log() = default;

  // Appends to the file, which is created where there is none.
  static Result<Log> open(const std::string& path);

  Log(Log&& other) noexcept : file_(std::move(other.file_)), path_(std::move(other.path_)) {}
  Log& operator=(Log&&) = delete;
  ~Log();  // also writes a last line that has no end

  // Lines, or a part of one: what follows the last "\n" is kept until the rest comes. A line goes
  // into the file in one write(2), so that several writers do not mix theirs.
  Outcome write(std::string_view text);

 private:
  Outcome put_line(std::string_view line);

  std::mutex mutex_;
  Fd file_;
  std::string path_;
  std::string rest_;
};

}  // namespace libhvd
