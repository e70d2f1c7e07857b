// A log file in which each line begins with the local time.
//
// Any thread may write. A Log without a file (on ranks that do not write) drops its text.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace libhvd {

class Log {
 public:
  Log() = default;  // without a file

  // Opens the file to append to it, and creates it if it is missing.
  static Result<Log> open(const std::string& path);

  Log(Log&& other) noexcept : file_(std::move(other.file_)), path_(std::move(other.path_)) {}
  Log& operator=(Log&&) = delete;
  ~Log();  // also writes an unfinished last line

  // Writes the lines of the text, and keeps what follows the last "\n" until the rest of that line
  // comes. Each line is one write(2), so that lines of several writers do not mix. Error: the file
  // cannot be written; the line is lost.
  Result<void> write(std::string_view text);

 private:
  Result<void> put_line(std::string_view line);

  std::mutex mutex_;  // guards rest_, and the order of lines
  Fd file_;
  std::string path_;
  std::string rest_;  // the unfinished line
};

}  // namespace libhvd
