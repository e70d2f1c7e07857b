#include "io/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace libhvd {
namespace {

// A text longer than this is cut: it is a message, not data.
constexpr std::size_t kLongestText = 64 * 1024;

struct Header {
  std::int32_t status;
  std::uint32_t length;
};

// "2026-03-01T12:00:00+0100": ISO 8601.
std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%FT%T%z", &local)};
}

}  // namespace

Result<void> share_outcome(Communicator& communicator, const Result<void>& own, int root,
                           const CallOptions& options) {
  const bool is_root = communicator.rank() == root;
  Header header{HVD_OK, 0};
  std::string text;
  if (is_root && !own.ok()) {
    text = own.error().message.substr(0, kLongestText);
    header = {own.error().status, static_cast<std::uint32_t>(text.size())};
  }
  HVD_CHECK(communicator.broadcast(&header, sizeof header, HVD_UINT8, root, options));
  if (header.status == HVD_OK) return {};
  text.resize(header.length);
  HVD_CHECK(communicator.broadcast(text.data(), text.size(), HVD_UINT8, root, options));
  if (is_root) return own;
  return fail(header.status, "rank " + std::to_string(communicator.number(root)) + ": " + text);
}

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
