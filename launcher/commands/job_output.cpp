#include "commands/job_output.hpp"

#include "common/system.hpp"
#include "common/text.hpp"
#include "slurm/job_state.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

namespace hvdrun {
namespace {

// A file that is older than the job by more than this is an earlier job's. Smaller differences may
// be between the clocks of two hosts.
constexpr std::int64_t kOlderNs = std::int64_t{60} * 1'000'000'000;

}  // namespace

void JobOutput::take(const JobRecord& job) {
  job_ = "job " + job.id;
  const auto paths = output_paths(job);
  if (paths.out.empty()) return;
  // After its first run the files are its own.
  if (phase_of(job.state) == JobPhase::pending && job.restarts > 0) return;
  if (phase_of(job.state) == JobPhase::pending) {
    marks_.clear();
    for (const auto& path : {paths.out, paths.err})
      if (!path.empty()) marks_[path] = mark_of(path);
    return;
  }
  if (job.hosts.empty() && job.batch_host.empty()) return;  // it was cancelled before it had any
  host_ = job.batch_host;
  if (paths.out == paths_.out && paths.err == paths_.err) return;
  paths_ = paths;
  files_.clear();
  files_.push_back({OutputTail(paths.out, before(paths.out, job)), false});
  if (!paths.err.empty()) files_.push_back({OutputTail(paths.err, before(paths.err, job)), true});
}

std::optional<FileMark> JobOutput::before(const std::string& path, const JobRecord& job) const {
  if (const auto known = marks_.find(path); known != marks_.end()) return known->second;
  if (job.restarts > 0) return std::nullopt;
  auto mark = mark_of(path);
  const bool is_older =
      mark && job.start && mark->changed_ns < *job.start * std::int64_t{1'000'000'000} - kOlderNs;
  return is_older ? mark : std::nullopt;
}

bool JobOutput::all_appeared() const {
  return std::all_of(files_.begin(), files_.end(),
                     [](const File& file) { return file.tail.has_appeared(); });
}

bool JobOutput::may_appear() const {
  return std::any_of(files_.begin(), files_.end(), [](const File& file) {
    std::error_code ignored;
    return !file.tail.has_appeared() && file.tail.access_error().empty() &&
           std::filesystem::is_directory(std::filesystem::path(file.tail.path()).parent_path(),
                                         ignored);
  });
}

std::vector<std::string> JobOutput::missing() const {
  std::vector<std::string> lines;
  for (const auto& file : files_) {
    if (file.tail.has_appeared() || !file.tail.access_error().empty()) continue;
    lines.push_back((file.is_stderr ? "the stderr of " : "the output of ") + job_ + " goes to " +
                    quote_if_needed(file.tail.path()) +
                    (host_.empty() ? "" : " on " + escape(host_)) +
                    ", which is not visible on this host (" + local_host_name() + ")");
  }
  return lines;
}

std::string news_text(OutputTail::News news, const OutputTail& tail) {
  const std::string path = quote_if_needed(tail.path());
  switch (news) {
    case OutputTail::News::none:
    case OutputTail::News::appeared:
      return {};
    case OutputTail::News::shortened:
      return path + " was cut short; this is from its start";
    case OutputTail::News::replaced:
      return path + " is another file now; this is from its start";
    case OutputTail::News::removed:
      return path + " was removed; what is still written to it is shown while it can be read";
    case OutputTail::News::no_access:
      return "cannot read " + path + ": " + tail.access_error();
  }
  return {};
}

}  // namespace hvdrun
