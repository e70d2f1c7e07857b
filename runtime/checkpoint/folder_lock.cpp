#include "checkpoint/folder_lock.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include <fcntl.h>

namespace libhvd::checkpoint {
namespace {

// The folders that this process has locked. Never destroyed: locks may be released while it exits.
struct Held {
  std::mutex mutex;
  std::vector<FolderIdentity> folders;
};

Held& held() {
  static auto* const only = new Held;
  return *only;
}

bool enter(const FolderIdentity& folder) {
  const std::lock_guard lock(held().mutex);
  if (std::ranges::find(held().folders, folder) != held().folders.end()) return false;
  held().folders.push_back(folder);
  return true;
}

void withdraw(const FolderIdentity& folder) {
  const std::lock_guard lock(held().mutex);
  std::erase(held().folders, folder);
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
  if (!enter(identity)) return in_use(folder, "this same process, which has opened it already");
  FolderLock lock;
  lock.folder_ = identity;
  lock.file_.reset(::open(lock_path(folder).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock.file_) return fail_errno("cannot create " + lock_path(folder), errno);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(lock.file_.get(), F_SETLK, &whole) == 0) {
    lock.holds_ = true;
  } else if (errno == EAGAIN || errno == EACCES) {
    return in_use(folder, read_line(lock.file_.get()));
  }
  // The text is for people, and shows other ranks that they see the same folder.
  const std::string line = owner + "\n";
  if (::ftruncate(lock.file_.get(), 0) != 0 ||
      ::pwrite(lock.file_.get(), line.data(), line.size(), 0) !=
          static_cast<ssize_t>(line.size()) ||
      ::fsync(lock.file_.get()) != 0) {
    return fail_errno("cannot write " + lock_path(folder), errno);
  }
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : file_(std::move(other.file_)),
      folder_(std::exchange(other.folder_, std::nullopt)),
      holds_(std::exchange(other.holds_, false)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  if (this == &other) return *this;
  release();
  file_ = std::move(other.file_);
  folder_ = std::exchange(other.folder_, std::nullopt);
  holds_ = std::exchange(other.holds_, false);
  return *this;
}

FolderLock::~FolderLock() {
  release();
}

void FolderLock::release() {
  file_.reset();  // which drops the lock
  if (folder_) withdraw(*folder_);
  folder_.reset();
  holds_ = false;
}

std::string lock_owner(const std::string& folder) {
  const Fd file(::open(lock_path(folder).c_str(), O_RDONLY | O_CLOEXEC));
  return file ? read_line(file.get()) : "";
}

}  // namespace libhvd::checkpoint
