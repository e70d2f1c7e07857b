#include "slurm/job_output.hpp"

#include "slurm/job_record.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::uint32_t kNoTask = 0xfffffffe;  // slurm.h, NO_VAL: what %a is outside an array
constexpr int kWidest = 10;

struct Numbers {
  std::uint32_t job = 0;
  std::uint32_t array = 0;  // outside an array the job's
  std::uint32_t task = kNoTask;
};

Numbers numbers_of(const JobRecord& job) {
  Numbers numbers{job.number, job.number};
  const auto id = parse_job_id(job.id);
  if (!id || id->kind != JobId::Kind::array_task) return numbers;
  numbers.array = id->number;
  const auto task = std::string_view(job.id).substr(job.id.find('_') + 1);
  std::from_chars(task.data(), task.data() + task.size(), numbers.task);
  return numbers;
}

// What the letter behind "%" stands for; none: nothing.
std::optional<std::string> value_of(char letter, int width, const JobRecord& job,
                                    const Numbers& numbers) {
  const auto padded = [width](std::uint32_t number) {
    return fmt::format("{:0{}}", number, width);
  };
  switch (letter) {
    case 'A':
      return padded(numbers.array);
    case 'a':
      return padded(numbers.task);
    case 'J':
    case 'j':
      return padded(numbers.job);
    case 'n':
    case 't':
      return padded(0);
    case 'N':
      return job.batch_host;
    case 's':
      return "batch";
    case 'u':
      return job.user;
    case 'x':
      return job.name;
    default:
      return std::nullopt;
  }
}

std::string expand(std::string_view pattern, const JobRecord& job) {
  const Numbers numbers = numbers_of(job);
  std::string path;
  while (!pattern.empty()) {
    const auto percent = pattern.find('%');
    path += pattern.substr(0, percent);
    if (percent == std::string_view::npos) break;
    pattern.remove_prefix(percent + 1);
    if (pattern.starts_with('%')) {
      path += '%';
      pattern.remove_prefix(1);
      continue;
    }
    const auto digits = std::min(pattern.find_first_not_of("0123456789"), pattern.size());
    int width = 0;
    const auto read = std::from_chars(pattern.data(), pattern.data() + digits, width);
    if (digits > 0 && (read.ec != std::errc{} || width > kWidest)) width = kWidest;
    const auto value =
        digits < pattern.size() ? value_of(pattern[digits], width, job, numbers) : std::nullopt;
    if (!value) {
      path += '%';
      continue;
    }
    path += *value;
    pattern.remove_prefix(digits + 1);
  }
  return path;
}

// Backslashes forbid all patterns, and go; a doubled one stands for itself.
std::string unescape(std::string_view pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && !pattern.substr(i + 1).starts_with('\\')) continue;
    if (pattern[i] == '\\') ++i;
    path += pattern[i];
  }
  return path;
}

std::string absolute(std::string_view pattern, const JobRecord& job) {
  std::string path =
      pattern.find('\\') == std::string_view::npos ? expand(pattern, job) : unescape(pattern);
  return path.starts_with('/') ? path : job.work_dir + "/" + path;
}

// Before SLURM 24 squeue shows WORKDIR/slurm-NUMBER.out where nothing was asked for, of an array's
// tasks too, where it is not so.
bool is_default(const std::string& pattern, const JobRecord& job) {
  return pattern.empty() || pattern == fmt::format("{}/slurm-{}.out", job.work_dir, job.number);
}

// Of a mark. Job output that is rewritten from its start hardly has the same bytes there again.
constexpr std::int64_t kEnding = 4096;

std::int64_t changed_ns(const struct stat& state) {
  return std::int64_t{state.st_mtim.tv_sec} * 1'000'000'000 + state.st_mtim.tv_nsec;
}

// The last bytes of the first `size` of a file; fewer where they cannot be read.
std::string read_ending(const Fd& file, std::int64_t size) {
  std::string ending(static_cast<std::size_t>(std::min(size, kEnding)), '\0');
  const auto got = ::pread(file.get(), ending.data(), ending.size(),
                           size - static_cast<std::int64_t>(ending.size()));
  ending.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return ending;
}

// Not blocking: it might be a pipe that nobody writes.
Fd open_to_read(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

std::string error_text(int number) {
  char text[256];
  return strerror_r(number, text, sizeof text);
}

}  // namespace

OutputPaths output_paths(const JobRecord& job) {
  if (!job.is_batch) return {};
  const auto path_of = [&](const std::string& pattern) {
    if (!is_default(pattern, job)) return absolute(pattern, job);
    const bool in_array = numbers_of(job).task != kNoTask;
    return absolute(in_array ? "slurm-%A_%a.out" : "slurm-%j.out", job);
  };
  OutputPaths paths{path_of(job.std_out), {}};
  if (!job.std_err.empty()) paths.err = path_of(job.std_err);
  if (paths.err == paths.out) paths.err.clear();
  return paths;
}

std::optional<FileMark> mark_of(const std::string& path) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0) return std::nullopt;
  FileMark mark{state.st_dev, state.st_ino, state.st_size, changed_ns(state), {}};
  if (!S_ISREG(state.st_mode)) return mark;
  if (const Fd file = open_to_read(path)) mark.ending = read_ending(file, state.st_size);
  return mark;
}

OutputTail::Look OutputTail::look(std::size_t most) {
  Look look;
  Fd named = open_named(look.news);
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
  Fd file = open_to_read(path_);
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

bool OutputTail::is_unchanged(const struct stat& state) const {
  return before_ && before_->device == state.st_dev && before_->inode == state.st_ino &&
         before_->size == state.st_size && before_->changed_ns == changed_ns(state);
}

// The file that is held: since `before_`, which it still begins with.
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
    if (count <= 0) break;  // its end; or the server has forgotten it (ESTALE)
    got += static_cast<std::size_t>(count);
    position_ += count;
  }
  look.bytes.resize(got);
  look.at_end = got < most;
}

}  // namespace hvdrun
