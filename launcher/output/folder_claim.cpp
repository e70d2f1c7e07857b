#include "output/folder_claim.hpp"

#include "common/text.hpp"

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

// What a run writes of itself into the file.
struct Claimant {
  std::string job;  // SLURM's id; empty outside a job
  std::string host;
  std::string process;
};

std::string text_of(const Claimant& run) {
  return fmt::format("process {}\nhost {}\njob {}\n", run.process, run.host, run.job);
}

Claimant read_claimant(int file) {
  std::array<char, 1024> bytes;
  const ssize_t got = ::pread(file, bytes.data(), bytes.size(), 0);
  std::string_view rest(bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const auto next = [&rest](std::string_view name) -> std::string {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    return line.starts_with(name) ? std::string(line.substr(name.size())) : std::string();
  };
  Claimant run;
  run.process = next("process ");
  run.host = next("host ");
  run.job = next("job ");
  return run;
}

Claimant this_run(const JobPart& part) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {part.job, host.data(), std::to_string(::getpid())};
}

// Returns whether another process has the lock. If the file system has no locks, none has.
bool is_held(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(file, F_OFD_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES);
}

// Returns the array of a job array's task: "12" for "12_3"; "" for another job.
std::string_view array_of(std::string_view job) {
  const auto at = job.find('_');
  return at == std::string_view::npos ? std::string_view() : job.substr(0, at);
}

// Returns whether the run before was another task of this run's job array.
bool is_other_task(const Claimant& before, const JobPart& part) {
  return !array_of(part.job).empty() && before.job != part.job &&
         array_of(before.job) == array_of(part.job);
}

Error of_other_task(const fs::path& folder, const Claimant& before) {
  return usage_error(fmt::format(
      "--output-filename: task {0} of this job array has written to '{1}'; give each task a folder "
      "of its own: --output-filename '{1}'/$SLURM_ARRAY_TASK_ID",
      escape(before.job), folder.string()));
}

Error in_use(const fs::path& folder, const Claimant& by) {
  auto who = by.process.empty()
                 ? std::string("another hvdrun")
                 : fmt::format("the hvdrun with process id {} on {}", by.process, by.host);
  if (!by.job.empty()) who += " (SLURM job " + by.job + ")";
  return usage_error(
      fmt::format("--output-filename: {} writes to '{}' now; give each job a folder of its own",
                  escape(who), folder.string()));
}

}  // namespace

Result<FolderClaim> FolderClaim::make(const fs::path& folder, const JobPart& part) {
  const bool is_later_part = !part.job.empty() && part.number > 0;
  const auto path = folder / ".hvdrun";
  FolderClaim claim;
  claim.continues_ = is_later_part;
  // 0600: whoever may open the file could lock it.
  claim.file_.reset(::open(
      path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  if (!claim.file_ && errno == EACCES) return claim;
  if (!claim.file_)
    return fail_errno(fmt::format("--output-filename: cannot open '{}'", path.string()), errno,
                      kExitUsage);
  const bool held = is_held(claim.file_.get());
  const auto before = read_claimant(claim.file_.get());
  const bool is_same_job = is_later_part && before.job == part.job;
  if (is_other_task(before, part)) return of_other_task(folder, before);
  if (held && !is_same_job) return in_use(folder, before);
  claim.continues_ = is_same_job || (is_later_part && before.process.empty());
  // Not essential: without it, the next run cannot name this one.
  const auto text = text_of(this_run(part));
  if (::ftruncate(claim.file_.get(), 0) == 0)
    static_cast<void>(::pwrite(claim.file_.get(), text.data(), text.size(), 0) < 0);
  return claim;
}

}  // namespace hvdrun
