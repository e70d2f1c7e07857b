#include "agent/job_folders.hpp"

#include "common/variables.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <regex>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

const std::filesystem::path kDefaultBase = "/tmp";
const std::filesystem::path kSharedBase = "/dev/shm";
constexpr std::chrono::seconds kOrphanAge{60};

Result<void> make_private(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return {};
  return fail_errno("cannot make the job's folder " + folder.string(), errno);
}

}  // namespace

JobFolders JobFolders::of(const std::string& job_id, std::size_t agent) {
  const char* chosen = std::getenv("TMPDIR");
  const std::filesystem::path base = chosen != nullptr && *chosen == '/' ? chosen : kDefaultBase;
  const auto name = "hvd-" + job_id + "-" + std::to_string(agent);
  return {base / name, kSharedBase / name};
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
  if (elsewhere == temporary || !make_private(elsewhere)) return made.error();
  temporary = elsewhere;
  return made.error().message + " (TMPDIR); using " + kDefaultBase.string();
}

Fd JobFolders::hold() const {
  Fd folder(::open(shared.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::flock(folder.get(), LOCK_SH);
  return folder;
}

bool JobFolders::clean_up() const {
  bool cleaned_up = true;
  // An agent that could not use $TMPDIR has made its folder in /tmp.
  for (const auto& folder : {temporary, kDefaultBase / temporary.filename(), shared}) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    cleaned_up = cleaned_up && !error;
  }
  return cleaned_up;
}

void clean_up_orphans() {
  const auto is_orphan = [](const std::filesystem::path& path) {
    const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!folder || ::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid())
      return false;
    const auto changed = std::chrono::system_clock::from_time_t(status.st_mtime);
    return changed + kOrphanAge < std::chrono::system_clock::now() &&
           ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
  };
  static const std::regex kName("hvd-([0-9a-f]{32})-([0-9]{1,9})");
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(kSharedBase, error), end; !error && at != end;
       at.increment(error))
    names.push_back(at->path().filename());
  std::smatch parts;
  for (const auto& name : names)
    if (std::regex_match(name, parts, kName) && is_orphan(kSharedBase / name))
      JobFolders::of(parts[1], std::stoul(parts[2])).clean_up();
}

}  // namespace hvdrun
