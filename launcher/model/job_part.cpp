#include "model/job_part.hpp"

#include <cerrno>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

// Returns what follows "NAME.rank" in the names of the folder's files: "3".
std::vector<std::string> ranks_with_files(const fs::path& file) {
  const auto folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const auto prefix = file.filename().string() + ".rank";
  std::vector<std::string> ranks;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const auto name = at->path().filename().string();
    if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
    auto rank = name.substr(prefix.size());
    if (rank.find_first_not_of("0123456789") == std::string::npos) ranks.push_back(std::move(rank));
  }
  return ranks;
}

Result<void> rename_aside(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(from, error))) return {};
  if (fs::exists(fs::symlink_status(to, error))) return {};
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return fail_errno("cannot keep " + from + " of the job's earlier part as " + to, errno,
                    kExitUsage);
}

}  // namespace

Result<void> keep_earlier_part(const fs::path& file, const JobPart& part) {
  if (file.empty() || part.number <= 0) return {};
  const auto from = file.string();
  const auto to = fmt::format("{}.job{}.part{}", from, part.job, part.number - 1);
  HVD_CHECK(rename_aside(from, to));
  for (const auto& rank : ranks_with_files(file))
    HVD_CHECK(rename_aside(from + ".rank" + rank, to + ".rank" + rank));
  return {};
}

}  // namespace hvdrun
