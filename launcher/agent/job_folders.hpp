// The folders that a job has on a host, both named after the job and removed after it.
#pragma once

#include "base/result.hpp"

#include <filesystem>
#include <string>

namespace hvdrun {

struct JobFolders {
  std::filesystem::path temporary;  // below $TMPDIR or /tmp: the PMIx server's files
  std::filesystem::path shared;     // below /dev/shm: status pages, segments of runtime and MPI

  // The names only; nothing is made.
  static JobFolders of(const std::string& job_id);

  // Makes both with mode 0700. Error: no room, no right; names the folder.
  Result<void> create() const;

  // Removes both with all they hold; what is not there is no error.
  void sweep() const;
};

}  // namespace hvdrun
