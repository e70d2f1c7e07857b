// Keeps two jobs from writing checkpoints into one folder: a lock (fcntl_locking(2), F_OFD_SETLK)
// on a file in the folder. The file holds the owner's job id, host and pid.
//
// The kernel (on NFS the server) drops the lock when the process ends, however it ends. The lock
// belongs to the open file and not to the process: a process's lock would be lost as soon as
// anything in the process, such as a backup of the folder, opens and closes the same file. A forked
// child shares the open file, so fork() closes it in the child, which then has no lock.
//
// Each lock has one owner; locks may be taken and released on any thread. A second lock within the
// same process is also refused, even where the file system has no locks.
#pragma once

#include "base/error.hpp"
#include "checkpoint/folder.hpp"
#include "common/fd.hpp"

#include <memory>
#include <string>

namespace libhvd::checkpoint {

inline constexpr const char* kLockName = ".hvd-checkpoint-lock";

class FolderLock {
 public:
  // Locks the folder. `owner`: one line about this job, shown to others that are refused. If the
  // file system has no locks, the result does not hold() anything. Error: the folder is locked, or
  // the file cannot be created.
  static Result<FolderLock> take(const std::string& folder, const std::string& owner);

  bool holds() const { return locked_ != nullptr && locked_->holds; }

  // A folder that this process has locked. fork() clears it in the child.
  struct Locked {
    FolderIdentity folder;
    Fd file = {};
    bool holds = false;
  };

 private:
  std::shared_ptr<Locked> locked_;
};

// Returns the line of the lock's owner; "" if the folder has no lock file.
std::string lock_owner(const std::string& folder);

}  // namespace libhvd::checkpoint
