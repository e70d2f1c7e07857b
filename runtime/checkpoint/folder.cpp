#include "checkpoint/folder.hpp"

#include "io/atomic_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

namespace libhvd::checkpoint {
namespace {

// What this process has locked. Never destroyed: locks may be released while it exits.
struct Held {
  std::mutex mutex;
  std::vector<std::weak_ptr<FolderLock::Locked>> locks;

  Held();
};

Held& held() {
  static auto* const only = new Held;
  return *only;
}

void close_in_child() {
  for (const auto& lock : held().locks) {
    if (const auto locked = lock.lock()) {
      locked->file.reset();
      locked->holds = false;
    }
  }
  held().locks.clear();
  held().mutex.unlock();
}

Held::Held() {
  ::pthread_atfork([] { held().mutex.lock(); }, [] { held().mutex.unlock(); }, close_in_child);
}

// Null: the process has locked it already.
std::shared_ptr<FolderLock::Locked> enter(const FolderIdentity& folder) {
  auto& locks = held().locks;
  const std::lock_guard lock(held().mutex);
  std::erase_if(locks, [](const auto& other) { return other.expired(); });
  for (const auto& other : locks) {
    const auto locked = other.lock();
    if (locked && locked->folder == folder) return nullptr;
  }
  auto made = std::make_shared<FolderLock::Locked>(FolderLock::Locked{folder});
  locks.push_back(made);
  return made;
}

std::string lock_path(const std::string& folder) {
  return folder + "/" + kLockName;
}

std::string read_line(int fd) {
  char text[512];
  const ssize_t count = ::pread(fd, text, sizeof text, 0);
  const std::string line(text, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return line.substr(0, line.find('\n'));
}

Error in_use(const std::string& folder, const std::string& owner) {
  return fail(HVD_ERROR_SYSTEM,
              "the folder " + folder + " is in use by " + (owner.empty() ? "another job" : owner) +
                  "; give each job a folder of its own, or wait for the other's end");
}

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".hvd";
constexpr std::string_view kPartWord = "part-";

// Takes `digits` digits or more from the front of text.
std::optional<std::uint64_t> take_number(std::string_view& text, std::size_t digits,
                                         int base = 10) {
  std::uint64_t number = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const auto length = static_cast<std::size_t>(stop - text.data());
  if (code != std::errc() || length < digits) return std::nullopt;
  text.remove_prefix(length);
  return number;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<FileName> parse_leniently(std::string_view text) {
  FileName name;
  if (!take(text, kPrefix)) return std::nullopt;
  const auto step = take_number(text, 20);
  if (!step || !take(text, ".")) return std::nullopt;
  const auto save = take_number(text, 10);
  if (!save) return std::nullopt;
  name.step = *step;
  name.save = *save;
  if (text == kSuffix) return name;
  if (!take(text, ".")) return std::nullopt;
  const auto writer = take_number(text, 16, 16);
  if (!writer || !take(text, ".") || !take(text, kPartWord)) return std::nullopt;
  const auto part = take_number(text, 5);
  if (!part || !text.empty()) return std::nullopt;
  name.is_part = true;
  name.writer = *writer;
  name.part = *part;
  return name;
}

// Durably. Why it was not made, as errno; 0: it was. Error: it was, and cannot be brought to the
// disk.
Result<int> make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) return errno;
  HVD_CHECK(flush_folder(folder_of(folder.substr(0, folder.find_last_not_of('/') + 1))));
  return 0;
}

}  // namespace

Result<FolderLock> FolderLock::take(const std::string& folder, const std::string& owner) {
  HVD_TRY(const FolderIdentity identity, FolderIdentity::of(folder));
  FolderLock lock;
  lock.locked_ = enter(identity);
  if (!lock.locked_) return in_use(folder, "this same process, which has opened it already");
  Locked& own = *lock.locked_;
  {
    const std::lock_guard no_fork(held().mutex);
    own.file.reset(
        ::open(lock_path(folder).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  }
  if (!own.file) return fail_errno("cannot create " + lock_path(folder), errno);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(own.file.get(), F_OFD_SETLK, &whole) == 0) {
    own.holds = true;
  } else if (errno == EAGAIN || errno == EACCES) {
    return in_use(folder, read_line(own.file.get()));
  }
  // The text is for people, and shows other ranks that they see the same folder.
  const std::string line = owner + "\n";
  if (::ftruncate(own.file.get(), 0) != 0 ||
      ::pwrite(own.file.get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size()) ||
      ::fsync(own.file.get()) != 0) {
    return fail_errno("cannot write " + lock_path(folder), errno);
  }
  return lock;
}

std::string lock_owner(const std::string& folder) {
  const Fd file(::open(lock_path(folder).c_str(), O_RDONLY | O_CLOEXEC));
  return file ? read_line(file.get()) : "";
}

std::string FileName::text() const {
  char text[128];
  if (is_part) {
    std::snprintf(text, sizeof text,
                  "checkpoint-%020" PRIu64 ".%010" PRIu64 ".%016" PRIx64 ".part-%05" PRIu64, step,
                  save, writer, part);
  } else {
    std::snprintf(text, sizeof text, "checkpoint-%020" PRIu64 ".%010" PRIu64 ".hvd", step, save);
  }
  return text;
}

std::optional<FileName> FileName::parse(std::string_view text) {
  const auto name = parse_leniently(text);
  // Only the one spelling: what was found must be what will be opened.
  if (!name || name->text() != text) return std::nullopt;
  return name;
}

Result<std::vector<FileName>> list_folder(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  if (listing == nullptr) return fail_errno("cannot read the folder " + folder, errno);
  std::vector<FileName> names;
  errno = 0;
  while (const dirent* entry = ::readdir(listing.get())) {
    if (const auto name = FileName::parse(entry->d_name)) names.push_back(*name);
    errno = 0;
  }
  if (errno != 0) return fail_errno("cannot read the folder " + folder, errno);
  std::ranges::sort(names, [](const FileName& a, const FileName& b) {
    if (a.save != b.save) return a.save > b.save;
    if (a.step != b.step) return a.step > b.step;
    if (a.is_part != b.is_part) return b.is_part;
    return a.part < b.part;
  });
  return names;
}

Result<void> make_folders(const std::string& folder) {
  for (std::size_t end = folder.find('/', 1); end != std::string::npos;
       end = folder.find('/', end + 1)) {
    HVD_CHECK(make_folder(folder.substr(0, end)));  // the last one says whether it is there
  }
  HVD_TRY(const int reason, make_folder(folder));
  if (reason == 0) return {};
  struct stat status {};
  if (reason == EEXIST && ::stat(folder.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return {};
    return fail(HVD_ERROR_SYSTEM, folder + " is not a folder but a file");
  }
  return fail_errno("cannot create the folder " + folder, reason);
}

Result<FolderIdentity> FolderIdentity::of(const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0)
    return fail_errno("cannot look at the folder " + folder, errno);
  if (!S_ISDIR(status.st_mode))
    return fail(HVD_ERROR_SYSTEM, folder + " is not a folder but a file");
  return FolderIdentity{status.st_dev, status.st_ino};
}

std::vector<Kept> by_metric(std::span<const Kept> checkpoints, hvd_best best) {
  std::vector<Kept> sorted;
  for (const Kept& kept : checkpoints) {
    if (best != HVD_BEST_NONE && kept.metric && std::isfinite(*kept.metric)) sorted.push_back(kept);
  }
  std::ranges::sort(sorted, [best](const Kept& a, const Kept& b) {
    if (*a.metric == *b.metric) return a.save < b.save;
    return best == HVD_BEST_MIN ? *a.metric < *b.metric : *a.metric > *b.metric;
  });
  return sorted;
}

std::vector<Kept> superfluous(std::span<const Kept> checkpoints, std::int64_t keep_last,
                              hvd_best best) {
  if (keep_last < 0) return {};
  const std::vector<Kept> good = by_metric(checkpoints, best);
  std::vector<Kept> rest(checkpoints.begin(), checkpoints.end());
  std::ranges::sort(rest, [](const Kept& a, const Kept& b) { return a.save > b.save; });
  rest.erase(rest.begin(),
             rest.begin() + std::min(keep_last, static_cast<std::int64_t>(rest.size())));
  std::erase_if(rest, [&](const Kept& kept) {
    return !good.empty() && good.front().save == kept.save && good.front().step == kept.step;
  });
  return rest;
}

}  // namespace libhvd::checkpoint
