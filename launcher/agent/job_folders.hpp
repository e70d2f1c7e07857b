// The folders of an agent's job, both named after job and agent, and removed after it.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace hvdrun {

struct JobFolders {
  std::filesystem::path temporary;  // below $TMPDIR or /tmp: the PMIx server's files
  std::filesystem::path shared;     // below /dev/shm: status pages, segments of runtime and MPI

  // The names only; nothing is made. `agent` tells the job's agents apart: two may be on one
  // machine, when that is named in two ways, or hosts share a /tmp.
  static JobFolders of(const std::string& job_id, std::size_t agent);

  // What stands in the environment of every rank of this agent, and of no other process:
  // "HVD_SHM_DIR=" and the shared folder.
  std::string cookie() const;

  // Makes both, or the shared one alone, with mode 0700. Where $TMPDIR cannot be used the temporary
  // one is in /tmp; then the text says so. Error: no room, no right; names the folder.
  Result<std::string> create(bool with_temporary);

  // Says, as long as the descriptor lives, that the folders are in use; see clean_up_orphans().
  Fd hold() const;

  // Removes both with all they hold; what is not there is no error. False: something is left.
  bool clean_up() const;
};

// Removes folders of this user's jobs that nobody holds: where SLURM, say, killed agent, guard and
// launcher at once. Leaves those of the last minute alone, which may be about to be held.
void clean_up_orphans();

}  // namespace hvdrun
