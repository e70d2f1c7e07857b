#include "agent/job_folders.hpp"

#include <cerrno>
#include <cstdlib>

#include <hvd_contract/environment.h>
#include <sys/stat.h>

namespace hvdrun {
namespace {

const std::filesystem::path kDefaultBase = "/tmp";

Result<void> make_private(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return {};
  return fail_errno("cannot make the job's folder " + folder.string(), errno);
}

}  // namespace

JobFolders JobFolders::of(const std::string& job_id, std::size_t agent) {
  const char* chosen = std::getenv("TMPDIR");
  const std::filesystem::path base = chosen != nullptr && *chosen == '/' ? chosen : kDefaultBase;
  const auto name = "hvd-" + job_id + "-" + std::to_string(agent);
  return {base / name, std::filesystem::path("/dev/shm") / name};
}

std::string JobFolders::cookie() const {
  return HVD_ENV_SHM_DIR "=" + shared.string();
}

Result<std::string> JobFolders::create(bool with_temporary) {
  if (auto made = make_private(shared); !made)
    return fail(
        made.error().message +
        "; ranks share memory there, so /dev/shm has to be a tmpfs that you may write to (of "
        "a container: --tmpfs /dev/shm, --shm-size)");
  if (!with_temporary) return {};
  auto made = make_private(temporary);
  if (made) return {};
  const auto elsewhere = kDefaultBase / temporary.filename();
  if (elsewhere == temporary || !make_private(elsewhere)) return tl::unexpected(made.error());
  temporary = elsewhere;
  return made.error().message + " (TMPDIR); using " + kDefaultBase.string();
}

bool JobFolders::sweep() const {
  bool swept = true;
  // The one in /tmp may be the work of a process that could not use $TMPDIR.
  for (const auto& folder : {temporary, kDefaultBase / temporary.filename(), shared}) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    swept = swept && !error;
  }
  return swept;
}

}  // namespace hvdrun
