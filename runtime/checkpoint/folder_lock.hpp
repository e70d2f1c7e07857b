// Keeps two jobs from writing into one folder: a POSIX record lock (fcntl) on a file in it, which
// holds the owner's job id, host and pid. The kernel (on NFS: the server) drops it when the process
// ends, however it ends. Within one process a second lock on the folder is refused too, which
// record locks alone would not do.
//
// One owner; any thread. A forked child has no lock.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "checkpoint/folder.hpp"

#include <optional>
#include <string>

namespace libhvd::checkpoint {

inline constexpr const char* kLockName = ".hvd-checkpoint-lock";

class FolderLock {
 public:
  // `owner`: a line about who this is, for the one who is refused. Error: another has it, or the
  // file cannot be made. Where the file system has no locks: a lock that does not hold() anything.
  static Result<FolderLock> take(const std::string& folder, const std::string& owner);

  FolderLock() = default;
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool holds() const { return holds_; }

 private:
  void release();

  Fd file_;
  std::optional<FolderIdentity> folder_;  // while it stands in the process's list
  bool holds_ = false;
};

// The line of the lock's owner, "" when there is none. Not in a process that holds the lock: it
// would lose it.
std::string lock_owner(const std::string& folder);

}  // namespace libhvd::checkpoint
