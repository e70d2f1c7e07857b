#include "slurm/output_tail.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// The most bytes of FileMark::ending. Output that is rewritten from its start is unlikely to have
// the same bytes there again.
constexpr std::int64_t kEnding = 4096;

std::int64_t changed_ns(const struct stat& state) {
  return std::int64_t{state.st_mtim.tv_sec} * 1'000'000'000 + state.st_mtim.tv_nsec;
}

// Returns the last bytes of the first `size` bytes of a file; fewer if they cannot be read.
std::string read_ending(const common::Fd& file, std::int64_t size) {
  std::string ending(static_cast<std::size_t>(std::min(size, kEnding)), '\0');
  const auto got = ::pread(file.get(), ending.data(), ending.size(),
                           size - static_cast<std::int64_t>(ending.size()));
  ending.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return ending;
}

// Opens without blocking, because the file might be a pipe that no process writes to.
common::Fd open_to_read(const std::string& path) {
  return common::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

std::string error_text(int number) {
  char text[256];
  return strerror_r(number, text, sizeof text);
}

}  // namespace

std::optional<FileMark> mark_of(const std::string& path) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0) return std::nullopt;
  FileMark mark{state.st_dev, state.st_ino, state.st_size, changed_ns(state), {}};
  if (!S_ISREG(state.st_mode)) return mark;
  if (const common::Fd file = open_to_read(path)) mark.ending = read_ending(file, state.st_size);
  return mark;
}

OutputTail::Look OutputTail::look(std::size_t most) {
  Look look;
  common::Fd named = open_named(look.news);
  struct stat state {};
  const bool is_there = named && ::fstat(named.get(), &state) == 0;
  if (is_there && !has_appeared_ && is_unchanged(state)) return look;
  if (is_there && !has_appeared_) {
    look.news = News::appeared;
    hold(std::move(named), state);
    if (has_grown(state)) position_ = before_->size;
    has_appeared_ = true;
  } else if (is_there && is_held(state)) {
    held_ = std::move(named);
    if (state.st_size < position_) {
      look.news = News::shortened;
      position_ = 0;
    }
  } else if (held_) {
    // Reads the rest of the old file before the one that has its name now.
    read_held(look, most);
    if (!look.at_end) return look;
    if (is_there) {
      look.news = News::replaced;
      look.at_end = false;
      hold(std::move(named), state);
    } else if (is_gone_ && !removal_reported_) {
      look.news = News::removed;
      removal_reported_ = true;
    }
    return look;
  }
  if (held_) read_held(look, most);
  return look;
}

common::Fd OutputTail::open_named(News& news) {
  common::Fd file = open_to_read(path_);
  const int error = errno;
  is_gone_ = !file && (error == ENOENT || error == ENOTDIR || error == ESTALE);
  struct stat state {};
  std::string access_error;
  if (!file && !is_gone_) access_error = error_text(error);
  if (file && (::fstat(file.get(), &state) != 0 || !S_ISREG(state.st_mode))) {
    access_error = "it is no regular file";
    file.reset();
  }
  if (!access_error.empty() && access_error != access_error_) news = News::no_access;
  access_error_ = std::move(access_error);
  return file;
}

bool OutputTail::is_held(const struct stat& named) const {
  return held_ && device_ == named.st_dev && inode_ == named.st_ino;
}

void OutputTail::hold(common::Fd file, const struct stat& state) {
  held_ = std::move(file);
  device_ = state.st_dev;
  inode_ = state.st_ino;
  position_ = 0;
  removal_reported_ = false;
}

bool OutputTail::is_unchanged(const struct stat& state) const {
  return before_ && before_->device == state.st_dev && before_->inode == state.st_ino &&
         before_->size == state.st_size && before_->changed_ns == changed_ns(state);
}

// Returns whether the held file has only grown since `before_`: it still begins with the same
// content.
bool OutputTail::has_grown(const struct stat& named) const {
  return before_ && before_->device == named.st_dev && before_->inode == named.st_ino &&
         before_->size < named.st_size && !before_->ending.empty() &&
         read_ending(held_, before_->size) == before_->ending;
}

void OutputTail::read_held(Look& look, std::size_t most) {
  look.bytes.resize(most);
  std::size_t got = 0;
  while (got < most) {
    const ssize_t count = ::pread(held_.get(), look.bytes.data() + got, most - got, position_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;  // its end; or the server no longer has the file (ESTALE)
    got += static_cast<std::size_t>(count);
    position_ += count;
  }
  look.bytes.resize(got);
  look.at_end = got < most;
}

}  // namespace hvdrun
