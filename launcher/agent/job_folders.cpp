#include "agent/job_folders.hpp"

#include "common/fd.hpp"
#include "common/variables.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>
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
constexpr std::string_view kNamePrefix = "hvd-";
// $TMPDIR may be /dev/shm, by whatever name: the two folders never have the same name.
constexpr const char* kTemporarySuffix = "-tmp";
constexpr std::size_t kJobIdDigits = 32;
constexpr std::size_t kMostAgentDigits = 9;

Result<void> make_private(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return {};
  return fail_errno("cannot make the job's folder " + folder.string(), errno);
}

struct Owner {
  std::string job_id;
  std::size_t agent = 0;
};

// Returns whose folder has this name, "hvd-JOB-AGENT"; nullopt if it is no job's.
std::optional<Owner> owner_of(std::string_view name) {
  if (!name.starts_with(kNamePrefix)) return std::nullopt;
  name.remove_prefix(kNamePrefix.size());
  const auto id = name.substr(0, kJobIdDigits);
  name.remove_prefix(id.size());
  if (id.find_first_not_of("0123456789abcdef") != std::string_view::npos || name.size() < 2 ||
      name.size() > 1 + kMostAgentDigits || name.front() != '-')
    return std::nullopt;
  Owner owner{std::string(id), 0};
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + 1, end, owner.agent);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return owner;
}

// Asks first for what needs no descriptor: there may be hundreds of folders, most of them in use.
bool is_orphan(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  const auto changed = std::chrono::system_clock::from_time_t(status.st_mtime);
  if (changed + kOrphanAge >= std::chrono::system_clock::now()) return false;
  const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

JobFolders JobFolders::of(const std::string& job_id, std::size_t agent) {
  const char* chosen = std::getenv("TMPDIR");
  const std::filesystem::path base = chosen != nullptr && *chosen == '/' ? chosen : kDefaultBase;
  const auto name = std::string(kNamePrefix) + job_id + "-" + std::to_string(agent);
  return {base / (name + kTemporarySuffix), kSharedBase / name};
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
  if (elsewhere == temporary || !make_private(elsewhere))
    return fail(made.error().message +
                (std::getenv("TMPDIR") == nullptr
                     ? "; TMPDIR can name another place for it (TMPDIR=/dev/shm)"
                     : " (TMPDIR), and none in " + kDefaultBase.string() + " either"));
  temporary = elsewhere;
  return made.error().message + " (TMPDIR); using " + kDefaultBase.string();
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

void clean_up_orphans(const std::string& own_job) {
  std::error_code error;
  std::vector<JobFolders> orphans;
  for (std::filesystem::directory_iterator at(kSharedBase, error), end; !error && at != end;
       at.increment(error)) {
    const auto& path = at->path();
    const auto owner = owner_of(path.filename().native());
    if (owner && owner->job_id != own_job && is_orphan(path))
      orphans.push_back(JobFolders::of(owner->job_id, owner->agent));
  }
  for (const auto& folders : orphans) folders.clean_up();
}

}  // namespace hvdrun
