#include "output/rank_files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {

namespace fs = std::filesystem;

namespace {

// Horovod pads the number to the width of the job's highest rank; four digits keep `ls` in order
// from one job to the next.
constexpr int kDigitsAtLeast = 4;

// O_NONBLOCK: a FIFO of that name is an error at once instead of a wait for its reader.
constexpr int kOpenFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

Result<void> make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0777) == 0) return {};  // enough for all but the first folder
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && !fs::is_directory(folder, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (!error) return {};
  return fail_errno(fmt::format("--output-filename: cannot make the folder '{}'", folder.string()),
                    error.value(), kExitUsage);
}

// Returns 7 for "rank.0007"; nullopt for a name that folder_name() never returns.
std::optional<int> rank_of_folder(std::string_view name) {
  constexpr std::string_view kPrefix = "rank.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  const bool is_number = error == std::errc() && end == name.data() + name.size() && rank >= 0;
  return is_number && name.size() >= kDigitsAtLeast ? std::optional(rank) : std::nullopt;
}

}  // namespace

Result<RankFiles> RankFiles::create(const fs::path& directory, int ranks, const JobPart& part,
                                    std::size_t most_open) {
  RankFiles files(directory, ranks, most_open);
  HVD_CHECK(files.create_all(ranks, part));
  return files;
}

std::size_t RankFiles::default_most_open() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 16;
  return std::max<std::size_t>(limit.rlim_cur / 2, 1);
}

RankFiles::RankFiles(fs::path directory, int ranks, std::size_t most_open)
    : directory_(std::move(directory)),
      ranks_(ranks),
      most_open_(std::max<std::size_t>(most_open, 1)),
      files_(static_cast<std::size_t>(ranks) * 2) {}

std::string RankFiles::folder_name(int rank, int ranks) {
  const auto digits = static_cast<int>(std::to_string(ranks - 1).size());
  return fmt::format("rank.{:0{}}", rank, std::max(kDigitsAtLeast, digits));
}

fs::path RankFiles::folder_of(int rank) const {
  return directory_ / folder_name(rank, ranks_);
}

fs::path RankFiles::path_of(std::size_t index) const {
  return folder_of(static_cast<int>(index / 2)) / (index % 2 == 0 ? "stdout" : "stderr");
}

// Removes what an earlier run with more ranks has left, which would look like this run's. Links are
// not followed, and files with other names stay.
Result<void> RankFiles::remove_other_ranks() const {
  std::error_code error;
  std::vector<fs::path> others;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end;
       at.increment(error)) {
    const auto rank = rank_of_folder(at->path().filename().string());
    if (rank && (*rank >= ranks_ || folder_of(*rank) != at->path())) others.push_back(at->path());
  }
  for (const auto& folder : others) {
    const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) continue;
    for (const auto* name : {"stdout", "stderr"})
      if (::unlinkat(fd.get(), name, 0) != 0 && errno != ENOENT)
        return fail_errno(fmt::format("--output-filename: cannot remove '{}' of an earlier run",
                                      (folder / name).string()),
                          errno, kExitUsage);
    ::rmdir(folder.c_str());
  }
  return {};
}

Result<void> RankFiles::create_all(int ranks, const JobPart& part) {
  HVD_CHECK(make_folder(directory_));
  HVD_TRY(claim_, FolderClaim::make(directory_, part));
  if (!claim_->continues()) HVD_CHECK(remove_other_ranks());
  const int truncate = claim_->continues() ? 0 : O_TRUNC;
  for (int rank = 0; rank < ranks; ++rank) {
    HVD_CHECK(make_folder(folder_of(rank)));
    for (const std::size_t stream : {0, 1}) {
      const fs::path path = path_of(static_cast<std::size_t>(rank) * 2 + stream);
      // Symbolic links are not followed: others who may write in the folder could choose which file
      // is emptied.
      const Fd fd(::open(path.c_str(), kOpenFlags | truncate | O_NOFOLLOW, 0666));
      if (!fd)
        return fail_errno(fmt::format("--output-filename: cannot open '{}'", path.string()), errno,
                          kExitUsage);
    }
  }
  return {};
}

bool RankFiles::make_open(std::size_t index) {
  File& file = files_[index];
  if (file.fd) {
    open_.splice(open_.begin(), open_, file.place);
    return true;
  }
  if (open_.size() >= most_open_) {
    files_[open_.back()].fd.reset();
    open_.pop_back();
  }
  const auto rank = static_cast<int>(index / 2);
  if (rank >= ranks_ && !make_folder(folder_of(rank))) return false;
  file.fd.reset(::open(path_of(index).c_str(), kOpenFlags, 0666));
  if (!file.fd) return false;
  open_.push_front(index);
  file.place = open_.begin();
  return true;
}

void RankFiles::write(int rank, Stream stream, std::string_view bytes) {
  const auto index = static_cast<std::size_t>(rank) * 2 + (stream == Stream::err ? 1 : 0);
  if (rank < 0 || index >= files_.size()) return;
  File& file = files_[index];
  if (file.failure == 0 && !bytes.empty() && !make_open(index)) give_up(index, errno);
  while (file.failure == 0 && !bytes.empty()) {
    const ssize_t written = ::write(file.fd.get(), bytes.data(), bytes.size());
    if (written >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      give_up(index, errno);
  }
  file.lost += bytes.size();
}

void RankFiles::give_up(std::size_t index, int errno_value) {
  File& file = files_[index];
  file.failure = errno_value;
  if (file.fd) {
    open_.erase(file.place);
    file.fd.reset();
  }
  if (error_) return;
  auto failure = fail_errno(fmt::format("cannot write '{}'", path_of(index).string()), errno_value);
  failure.message += "; what the rank prints is missing there from here on";
  error_ = std::move(failure);
}

std::vector<std::string> RankFiles::losses() const {
  std::vector<std::string> losses;
  for (std::size_t index = 0; index < files_.size(); ++index) {
    const File& file = files_[index];
    if (file.lost > 0)
      losses.push_back(
          fmt::format("{} of rank {} is not complete: the last {} bytes could not be "
                      "written to '{}': {}",
                      index % 2 == 0 ? "stdout" : "stderr", index / 2, file.lost,
                      path_of(index).string(), std::generic_category().message(file.failure)));
  }
  return losses;
}

}  // namespace hvdrun
