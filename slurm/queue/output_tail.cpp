#include "slurm/queue/output_tail.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hvdrun {
namespace {

FileMark mark_from(const struct stat& state) {
  return {state.st_dev, state.st_ino, state.st_size,
          std::int64_t{state.st_mtim.tv_sec} * 1'000'000'000 + state.st_mtim.tv_nsec};
}

std::string error_text(int number) {
  char text[256];
  return strerror_r(number, text, sizeof text);
}

}  // namespace

std::optional<FileMark> mark_of(const std::string& path) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0) return std::nullopt;
  return mark_from(state);
}

OutputTail::Look OutputTail::look(std::size_t most) {
  Look look;
  Fd named = open_named(look.news);
  struct stat state {};
  const bool is_there = named && ::fstat(named.get(), &state) == 0;
  if (is_there && before_ && !has_appeared_ && mark_from(state) == *before_) return look;
  if (is_there && !has_appeared_) {
    look.news = News::appeared;
    hold(std::move(named), state);
    has_appeared_ = true;
  } else if (is_there && is_held(state)) {
    held_ = std::move(named);
    if (state.st_size < position_) {
      look.news = News::shortened;
      position_ = 0;
    }
  } else if (held_) {
    // Its last bytes come first; then the file that has its name.
    read_held(look, most);
    if (!look.at_end) return look;
    if (is_there) {
      look.news = News::replaced;
      look.at_end = false;
      hold(std::move(named), state);
    } else if (is_gone_ && !was_removed_) {
      look.news = News::removed;
      was_removed_ = true;
    }
    return look;
  }
  if (held_) read_held(look, most);
  return look;
}

Fd OutputTail::open_named(News& news) {
  // Not blocking: it might be a pipe that nobody writes.
  Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const int error = errno;
  is_gone_ = !file && (error == ENOENT || error == ENOTDIR || error == ESTALE);
  struct stat state {};
  std::string trouble;
  if (!file && !is_gone_) trouble = error_text(error);
  if (file && (::fstat(file.get(), &state) != 0 || !S_ISREG(state.st_mode))) {
    trouble = "it is no regular file";
    file.reset();
  }
  if (!trouble.empty() && trouble != trouble_) news = News::no_access;
  trouble_ = std::move(trouble);
  return file;
}

bool OutputTail::is_held(const struct stat& named) const {
  return held_ && device_ == named.st_dev && inode_ == named.st_ino;
}

void OutputTail::hold(Fd file, const struct stat& state) {
  held_ = std::move(file);
  device_ = state.st_dev;
  inode_ = state.st_ino;
  position_ = 0;
  was_removed_ = false;
}

void OutputTail::read_held(Look& look, std::size_t most) {
  look.bytes.resize(most);
  std::size_t got = 0;
  while (got < most) {
    const ssize_t count = ::pread(held_.get(), look.bytes.data() + got, most - got, position_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;  // its end; or the server has forgotten it (ESTALE)
    got += static_cast<std::size_t>(count);
    position_ += count;
  }
  look.bytes.resize(got);
  look.at_end = got < most;
}

}  // namespace hvdrun
