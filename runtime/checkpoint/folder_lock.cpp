#include "checkpoint/folder_lock.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace libhvd::checkpoint {
namespace {

// All locks of this process. Never destroyed, because locks may be released while it exits.
struct LockTable {
  std::mutex mutex;
  std::vector<std::weak_ptr<FolderLock::Locked>> locks;

  LockTable();
};

LockTable& lock_table() {
  static auto* const only = new LockTable;
  return *only;
}

// Runs in a forked child, with the table's mutex locked by the fork.
void close_in_child() {
  for (const auto& lock : lock_table().locks) {
    if (const auto locked = lock.lock()) {
      locked->file.reset();
      locked->holds = false;
    }
  }
  lock_table().locks.clear();
  lock_table().mutex.unlock();
}

LockTable::LockTable() {
  ::pthread_atfork([] { lock_table().mutex.lock(); }, [] { lock_table().mutex.unlock(); },
                   close_in_child);
}

// Adds the folder to the table. Returns nullptr if the process has locked it already.
std::shared_ptr<FolderLock::Locked> add_to_table(const FolderIdentity& folder) {
  auto& locks = lock_table().locks;
  const std::lock_guard lock(lock_table().mutex);
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

}  // namespace

Result<FolderLock> FolderLock::take(const std::string& folder, const std::string& owner) {
  HVD_TRY(const FolderIdentity identity, FolderIdentity::of(folder));
  FolderLock lock;
  lock.locked_ = add_to_table(identity);
  if (!lock.locked_) return in_use(folder, "this same process, which has opened it already");
  Locked& own = *lock.locked_;
  {
    const std::lock_guard no_fork(lock_table().mutex);
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

}  // namespace libhvd::checkpoint
