#include "trace/journal.hpp"

#include "base/thread.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace libhvd {
namespace {

constexpr std::chrono::milliseconds kPeriod{50};
constexpr std::size_t kPage = 4096;  // or a divisor of it
constexpr std::string_view kHead = "[";

}  // namespace

// Removes what has the name first, so that it never writes through a symbolic link.
Result<std::unique_ptr<TraceJournal>> TraceJournal::create(const std::string& path) {
  ::unlink(path.c_str());
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return fail_errno("cannot create a file for " + path, errno);
  if (::write(file.get(), kHead.data(), kHead.size()) < 0)
    return fail_errno("cannot write " + path, errno);
  return std::unique_ptr<TraceJournal>(new TraceJournal(path, std::move(file)));
}

void TraceJournal::start(std::shared_ptr<Recorder> recorder, RankView view) {
  recorder_ = std::move(recorder);
  view_ = std::move(view);
  auto started = start_thread("writes the timeline", [this] { run(); });
  if (started.ok()) thread_ = std::move(*started);
}

void TraceJournal::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TraceJournal::remove() {
  ::unlink(path_.c_str());
}

void TraceJournal::run() {
  std::unique_lock lock(mutex_);
  for (bool last = false; !last;) {
    last = stopping_.wait_for(lock, kPeriod, [this] { return stop_; });
    lock.unlock();
    while (write_new()) {
    }
    lock.lock();
  }
}

// Writes the events of one reading. Returns false if there were none.
bool TraceJournal::write_new() {
  recorder_->read_on(read_);
  const bool some = std::any_of(read_.tracks.begin(), read_.tracks.end(),
                                [](const TrackRecording& track) { return !track.events.empty(); });
  if (!some || !file_) {
    flush();
    return false;
  }
  TraceText text(read_, view_, {}, &progress_);
  for (std::string events = text.next(); !events.empty(); events = text.next()) {
    std::string_view left = events;  // each event begins with ",\n" and has no other "\n"
    while (!left.empty()) {
      const std::size_t length = std::min(left.find(",\n", 1), left.size());
      append(left.substr(0, length));
      left.remove_prefix(length);
    }
  }
  flush();
  return true;
}

void TraceJournal::append(std::string_view event) {
  if (end_ == kHead.size()) event.remove_prefix(1);  // the comma
  const std::size_t room = kPage - end_ % kPage;
  if (event.size() > room) {
    page_.append(room, ' ');
    end_ += room;
    flush();
  }
  page_ += event;
  end_ += event.size();
}

// Writes page_. After an error it cuts the file to its last whole page and closes it, so that it
// remains a timeline.
void TraceJournal::flush() {
  const auto whole = static_cast<off_t>(end_ - page_.size());
  std::string_view left = page_;
  while (file_ && !left.empty()) {
    const ssize_t written = ::write(file_.get(), left.data(), left.size());
    if (written > 0) left.remove_prefix(static_cast<std::size_t>(written));
    if (written > 0 || errno == EINTR) continue;
    [[maybe_unused]] const int cut = ::ftruncate(file_.get(), whole);
    file_.reset();
  }
  page_.clear();
}

}  // namespace libhvd
