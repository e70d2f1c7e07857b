// How something went that one rank did for all.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"
#include "common/fd.hpp"

#include <mutex>
#include <string>
#include <string_view>

namespace libhvd {

// Called by all ranks. `own` is the outcome on `root`; elsewhere it is not looked at. The answer is
// that outcome on all ranks, a failure with "rank R: " before its text elsewhere.
Result<void> share_outcome(Communicator& communicator, const Result<void>& own, int root,
                           const CallOptions& options);

// A log file: each line with the time before it.

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
  Result<void> write(std::string_view text);

 private:
  Result<void> put_line(std::string_view line);

  std::mutex mutex_;
  Fd file_;
  std::string path_;
  std::string rest_;
};

}  // namespace libhvd
