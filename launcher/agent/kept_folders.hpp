// The agent's two folders while its job runs. They may lose their names: a cleaner removes what is
// in /dev/shm or empties it, such as systemd-logind at a user's last logout (RemoveIPC), or an
// epilog script. Processes that have opened files there do not notice, and others find nothing:
// ranks that call hvd_init, and members of an elastic job that come together again. So the shared
// folder and its files are made again.
//
// A lock (flock(2)) keeps both from systemd-tmpfiles and from clean_up_orphans().
//
// The agent owns it, on its loop thread. Only create() can fail; later failures are said once.
#pragma once

#include "agent/folder_removals.hpp"
#include "agent/job_folders.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"

#include <functional>
#include <string>

namespace hvdrun {

class KeptFolders {
 public:
  // `warn` gets a line for the user.
  KeptFolders(const EventLoop& loop, JobFolders folders,
              std::function<void(const std::string& text)> warn);

  // Makes the folders as JobFolders::create() does, and locks them.
  Result<std::string> create(bool with_temporary);

  // Watches the shared folder from now on. `restore_files` makes those of its files again that are
  // not there, and returns whether one was missing.
  void watch(std::function<Result<bool>()> restore_files);

  // Makes again now what is missing.
  void restore();

  const JobFolders& paths() const { return folders_; }
  // Ends the watch and removes both folders, as JobFolders::clean_up() does.
  bool clean_up();

 private:
  Result<bool> restore_folder();
  void restore_soon();

  JobFolders folders_;
  const std::function<void(const std::string& text)> warn_;
  std::function<Result<bool>()> restore_files_;  // empty: nothing is watched
  Fd shared_;
  Fd temporary_;
  bool has_said_ = false;
  bool looks_soon_ = false;
  Timer timer_;
  FolderRemovals removals_;
};

}  // namespace hvdrun
