#include "agent/job_folders.hpp"

#include <cerrno>
#include <cstdlib>

#include <sys/stat.h>

namespace hvdrun {

JobFolders JobFolders::of(const std::string& job_id) {
  const char* chosen = std::getenv("TMPDIR");
  const std::filesystem::path base = chosen != nullptr && *chosen == '/' ? chosen : "/tmp";
  return {base / ("hvd-" + job_id), std::filesystem::path("/dev/shm") / ("hvd-" + job_id)};
}

Result<void> JobFolders::create() const {
  for (const auto& folder : {temporary, shared})
    if (::mkdir(folder.c_str(), 0700) != 0)
      return fail_errno("cannot make the job's folder " + folder.string(), errno);
  return {};
}

void JobFolders::sweep() const {
  for (const auto& folder : {temporary, shared}) {
    std::error_code ignored;  // nobody is left to tell; the next sweep tries again
    std::filesystem::remove_all(folder, ignored);
  }
}

}  // namespace hvdrun
