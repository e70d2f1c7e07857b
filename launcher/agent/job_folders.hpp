// The two folders that an agent makes for its job and removes after it. Both are named after job
// and agent. Plain values and functions without state: agent, guard and launcher use them, each on
// its own thread.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace hvdrun {

struct JobFolders {
  std::filesystem::path temporary;  // below $TMPDIR or /tmp: the PMIx server's files
  std::filesystem::path shared;     // below /dev/shm: status pages, segments of runtime and MPI

  // Returns the names; makes nothing. `agent` is in the names because two agents of a job may share
  // folders: on a machine that the user names in two ways, or if hosts share a /tmp.
  static JobFolders of(const std::string& job_id, std::size_t agent);

  // Returns the variable that every rank of this agent has in its environment, and no other
  // process: "HVD_SHM_DIR=" and the shared folder.
  std::string cookie() const;

  // Makes both folders, or the shared one alone, with mode 0700. If $TMPDIR cannot be used, the
  // temporary one is in /tmp, and a note that says so is returned; otherwise "". Error: a folder
  // cannot be made (the message names it).
  Result<std::string> create(bool with_temporary);

  // Removes both with their contents. A missing folder is no error. Returns false if something is
  // left.
  bool clean_up() const;
};

// Removes folders of this user's jobs that no process holds, for example because a scheduler killed
// agent, guard and launcher at once. Leaves folders of the last minute alone, which may be held
// soon, and those of `own_job`, which its launcher removes.
void clean_up_orphans(const std::string& own_job);

}  // namespace hvdrun
