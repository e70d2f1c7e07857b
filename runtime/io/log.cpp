#include "io/log.hpp"

#include <cerrno>
#include <cstddef>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

namespace libhvd {
namespace {

// Returns the local time as in ISO 8601: "2026-03-01T12:00:00+0100".
std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%FT%T%z", &local)};
}

}  // namespace

Result<Log> Log::open(const std::string& path) {
  Log log;
  log.file_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log.file_) return fail_errno("cannot open the log " + path, errno);
  log.path_ = path;
  return log;
}

Log::~Log() {
  if (rest_.empty()) return;
  [[maybe_unused]] const auto lost = put_line(rest_);
}

Result<void> Log::write(std::string_view text) {
  if (!file_) return {};
  const std::lock_guard lock(mutex_);
  rest_ += text;
  std::size_t begin = 0;
  for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    auto written = put_line(std::string_view(rest_).substr(begin, end - begin));
    if (written.ok()) continue;
    rest_.erase(0, end + 1);
    return written;
  }
  rest_.erase(0, begin);
  return {};
}

Result<void> Log::put_line(std::string_view line) {
  const std::string whole = time_text() + " " + std::string(line) + "\n";
  for (std::string_view left = whole; !left.empty();) {
    const ssize_t count = ::write(file_.get(), left.data(), left.size());
    if (count < 0 && errno != EINTR) return fail_errno("cannot write to the log " + path_, errno);
    if (count > 0) left.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace libhvd
