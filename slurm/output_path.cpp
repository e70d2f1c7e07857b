#include "slurm/output_path.hpp"

#include "slurm/job_id.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::uint32_t kNoTask = 0xfffffffe;  // %a outside an array (slurm.h, NO_VAL)
constexpr int kWidest = 10;                    // of a number in a pattern, in digits

struct Numbers {
  std::uint32_t job = 0;
  std::uint32_t array = 0;  // the job's own number outside an array
  std::uint32_t task = kNoTask;
};

Numbers numbers_of(const JobRecord& job) {
  Numbers numbers{job.number, job.number};
  const auto id = parse_job_id(job.id);
  if (!id || id->kind != JobId::Kind::array_task) return numbers;
  numbers.array = id->number;
  const auto task = std::string_view(job.id).substr(job.id.find('_') + 1);
  std::from_chars(task.data(), task.data() + task.size(), numbers.task);
  return numbers;
}

// Returns the value of the letter after "%"; nullopt if the letter is no pattern.
std::optional<std::string> value_of(char letter, int width, const JobRecord& job,
                                    const Numbers& numbers) {
  const auto padded = [width](std::uint32_t number) {
    return fmt::format("{:0{}}", number, width);
  };
  switch (letter) {
    case 'A':
      return padded(numbers.array);
    case 'a':
      return padded(numbers.task);
    case 'J':
    case 'j':
      return padded(numbers.job);
    case 'n':
    case 't':
      return padded(0);
    case 'N':
      return job.batch_host;
    case 's':
      return "batch";
    case 'u':
      return job.user;
    case 'x':
      return job.name;
    default:
      return std::nullopt;
  }
}

// Replaces the patterns. A "%" that begins no pattern stays.
std::string expand(std::string_view pattern, const JobRecord& job) {
  const Numbers numbers = numbers_of(job);
  std::string path;
  while (!pattern.empty()) {
    const auto percent = pattern.find('%');
    path += pattern.substr(0, percent);
    if (percent == std::string_view::npos) break;
    pattern.remove_prefix(percent + 1);
    if (pattern.starts_with('%')) {
      path += '%';
      pattern.remove_prefix(1);
      continue;
    }
    const auto digits = std::min(pattern.find_first_not_of("0123456789"), pattern.size());
    int width = 0;
    const auto read = std::from_chars(pattern.data(), pattern.data() + digits, width);
    if (digits > 0 && (read.ec != std::errc{} || width > kWidest)) width = kWidest;
    const auto value =
        digits < pattern.size() ? value_of(pattern[digits], width, job, numbers) : std::nullopt;
    if (!value) {
      path += '%';
      continue;
    }
    path += *value;
    pattern.remove_prefix(digits + 1);
  }
  return path;
}

// Removes backslashes, and makes one out of two. A path with a backslash has no patterns.
std::string unescape(std::string_view pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && !pattern.substr(i + 1).starts_with('\\')) continue;
    if (pattern[i] == '\\') ++i;
    path += pattern[i];
  }
  return path;
}

std::string absolute(std::string_view pattern, const JobRecord& job) {
  std::string path =
      pattern.find('\\') == std::string_view::npos ? expand(pattern, job) : unescape(pattern);
  return path.starts_with('/') ? path : job.work_dir + "/" + path;
}

// Returns whether the user requested no path. Before SLURM 24 squeue then shows
// WORKDIR/slurm-NUMBER.out, also for an array's tasks, whose files have other names.
bool is_default(const std::string& pattern, const JobRecord& job) {
  return pattern.empty() || pattern == fmt::format("{}/slurm-{}.out", job.work_dir, job.number);
}

}  // namespace

OutputPaths output_paths(const JobRecord& job) {
  if (!job.is_batch) return {};
  const auto path_of = [&](const std::string& pattern) {
    if (!is_default(pattern, job)) return absolute(pattern, job);
    const bool in_array = numbers_of(job).task != kNoTask;
    return absolute(in_array ? "slurm-%A_%a.out" : "slurm-%j.out", job);
  };
  OutputPaths paths{path_of(job.std_out), {}};
  if (!job.std_err.empty()) paths.err = path_of(job.std_err);
  if (paths.err == paths.out) paths.err.clear();
  return paths;
}

}  // namespace hvdrun
