#include "agent/kept_folders.hpp"

#include "common/system.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Finds what FolderRemovals does not report.
constexpr std::chrono::milliseconds kLookInterval{30'000};
// A cleaner removes file by file, and the folder last.
constexpr std::chrono::milliseconds kSoon{10};

// Marks the folder as in use for as long as the descriptor lives.
Fd lock_folder(const std::filesystem::path& folder) {
  Fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (opened) ::flock(opened.get(), LOCK_SH);
  return opened;
}

// Returns whether the name still leads to the open folder.
bool has_its_name(const std::filesystem::path& path, const Fd& folder) {
  struct stat named {};
  struct stat open {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(folder.get(), &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

}  // namespace

KeptFolders::KeptFolders(const EventLoop& loop, JobFolders folders,
                         std::function<void(const std::string& text)> warn)
    : folders_(std::move(folders)),
      warn_(std::move(warn)),
      timer_(loop, [this] { restore(); }),
      removals_(loop, [this] { restore_soon(); }) {}

Result<std::string> KeptFolders::create(bool with_temporary) {
  auto created = folders_.create(with_temporary);
  shared_ = lock_folder(folders_.shared);
  if (with_temporary) temporary_ = lock_folder(folders_.temporary);
  return created;
}

void KeptFolders::watch(std::function<Result<bool>()> restore_files) {
  restore_files_ = std::move(restore_files);
  FolderRemovals::watch(shared_.get());
  timer_.start(kLookInterval);
}

// Ranks remove files of their own there, too.
void KeptFolders::restore_soon() {
  if (!restore_files_ || std::exchange(looks_soon_, true)) return;
  timer_.start(kSoon);
}

void KeptFolders::restore() {
  if (!restore_files_) return;
  looks_soon_ = false;
  timer_.start(kLookInterval);
  auto restored = restore_folder();
  bool was_lost = restored && *restored;
  if (restored) restored = restore_files_();
  was_lost = was_lost || (restored && *restored);
  if ((restored && !was_lost) || std::exchange(has_said_, true)) return;
  const std::string cleaners =
      "systemd-logind does so at a user's last logout (RemoveIPC=yes): `loginctl enable-linger` "
      "prevents it";
  warn_(restored
            ? fmt::format("{}: {} was removed or emptied while the job runs, and was made "
                          "again; {}",
                          local_host_name(), folders_.shared.string(), cleaners)
            : fmt::format("{}: {} was removed or emptied while the job runs, and cannot be made "
                          "again, so no rank can call hvd_init: {}; {}",
                          local_host_name(), folders_.shared.string(), restored.error().message,
                          cleaners));
}

// Returns whether the folder had lost its name. Whatever has the name now is used if it is ours.
Result<bool> KeptFolders::restore_folder() {
  if (!shared_ || has_its_name(folders_.shared, shared_)) return false;
  if (::mkdir(folders_.shared.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("cannot make it", errno);
  Fd folder = lock_folder(folders_.shared);
  struct stat status {};
  if (!folder || ::fstat(folder.get(), &status) != 0) return fail_errno("cannot open it", errno);
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0)
    return fail("another user has made it");
  shared_ = std::move(folder);
  FolderRemovals::watch(shared_.get());
  return true;
}

bool KeptFolders::clean_up() {
  timer_.cancel();
  restore_files_ = nullptr;
  return folders_.clean_up();
}

}  // namespace hvdrun
