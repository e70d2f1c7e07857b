// Keeps two jobs from writing into one folder: a lock (fcntl_locking(2), F_OFD_SETLK) on a file in
// it, which holds the owner's job id, host and pid. The kernel (on NFS: the server) drops it when
// the process ends, however it ends. It belongs to the open file and not to the process, as a lock
// of the process would be lost when anything in the process, a backup of the folder say, opens and
// closes the same file. For that the file is closed in a forked child, which has no lock.
//
// One owner; any thread. A second lock of the same process is refused as another's is, and also
// where the file system has no locks.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "checkpoint/folder.hpp"

#include <memory>
#include <string>

namespace libhvd::checkpoint {

inline constexpr const char* kLockName = ".hvd-checkpoint-lock";

class FolderLock {
 public:
  // `owner`: a line about who this is, for the one who is refused. Error: another has it, or the
  // file cannot be made. Where the file system has no locks: a lock that does not hold() anything.
  static Result<FolderLock> take(const std::string& folder, const std::string& owner);

  bool holds() const { return locked_ != nullptr && locked_->holds; }

  // What the process has locked; a forked child empties it.
  struct Locked {
    FolderIdentity folder;
    Fd file = {};
    bool holds = false;
  };

 private:
  std::shared_ptr<Locked> locked_;
};

// The line of the lock's owner, "" when there is none.
std::string lock_owner(const std::string& folder);

}  // namespace libhvd::checkpoint
