#include "agent/job_folders.hpp"

#include <cerrno>
#include <cstdlib>

#include <hvd_contract/environment.h>
#include <sys/stat.h>

namespace hvdrun {

JobFolders JobFolders::of(const std::string& job_id, std::size_t agent) {
  const char* chosen = std::getenv("TMPDIR");
  const std::filesystem::path base = chosen != nullptr && *chosen == '/' ? chosen : "/tmp";
  const auto name = "hvd-" + job_id + "-" + std::to_string(agent);
  return {base / name, std::filesystem::path("/dev/shm") / name};
}

std::string JobFolders::cookie() const {
  return HVD_ENV_SHM_DIR "=" + shared.string();
}

Result<void> JobFolders::create(bool with_temporary) const {
  for (const auto& folder : {shared, temporary})
    if ((with_temporary || folder == shared) && ::mkdir(folder.c_str(), 0700) != 0)
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
