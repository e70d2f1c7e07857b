#include "control/control_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestId = 16;  // characters of the job's id in a name

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// Returns the value of a variable that names a folder; empty without one.
fs::path folder_of_variable(const Environment& environment, std::string_view name) {
  const auto* value = find_variable(environment, name);
  return value != nullptr && value->starts_with('/') ? fs::path(*value) : fs::path();
}

// Returns the folders that hold those with the user's name: /tmp, and $TMPDIR.
std::vector<fs::path> common_folders(const Environment& environment) {
  std::vector<fs::path> folders{"/tmp"};
  const auto other = folder_of_variable(environment, "TMPDIR");
  if (!other.empty() && other != folders.front()) folders.push_back(other);
  return folders;
}

std::string user_folder() {
  return "hvdrun-" + std::to_string(::geteuid());
}

}  // namespace

std::vector<fs::path> control_folders(const Environment& environment) {
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& folder) {
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
  };
  const auto user = std::to_string(::geteuid());
  if (const auto base = folder_of_variable(environment, "XDG_RUNTIME_DIR"); !base.empty())
    add(base / "hvdrun");
  std::error_code error;
  if (fs::is_directory("/run/user/" + user, error)) add(fs::path("/run/user") / user / "hvdrun");
  for (const auto& base : common_folders(environment)) add(base / user_folder());
  return folders;
}

std::vector<fs::path> other_control_folders(const Environment& environment) {
  std::vector<fs::path> folders;
  for (const auto& base : common_folders(environment)) {
    std::error_code error;
    for (fs::directory_iterator at(base, error), end; !error && at != end; at.increment(error))
      if (at->path().filename().string().starts_with(user_folder() + "-") &&
          open_control_folder(at->path()))
        folders.push_back(at->path());
  }
  return folders;
}

Result<fs::path> make_other_control_folder(const Environment& environment) {
  Error first;
  for (const auto& base : common_folders(environment)) {
    auto path = (base / (user_folder() + "-XXXXXX")).string();
    if (::mkdtemp(path.data()) != nullptr) return fs::path(path);
    if (first.message.empty()) first = fail_errno("cannot make " + path, errno);
  }
  return first;
}

Result<Fd> open_control_folder(const fs::path& folder) {
  Fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened) return fail_errno("cannot open " + folder.string(), errno);
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0)
    return fail_errno("cannot look at " + folder.string(), errno);
  if (status.st_uid != ::geteuid())
    return fail(folder.string() + " is another user's: hvdrun does not use it");
  if ((status.st_mode & 077) != 0)
    return fail(fmt::format("other users may enter {}: hvdrun does not use it (chmod 700 {})",
                            folder.string(), folder.string()));
  return opened;
}

Result<Fd> make_control_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("cannot make " + folder.string(), errno);
  return open_control_folder(folder);
}

std::string control_name(pid_t pid, const std::string& job_id) {
  return fmt::format("{}-{}", pid, job_id.substr(0, kLongestId));
}

std::optional<pid_t> pid_in(std::string_view control_name) {
  pid_t pid = 0;
  const auto* const end = control_name.data() + control_name.size();
  const auto [after, error] = std::from_chars(control_name.data(), end, pid);
  if (error != std::errc() || pid <= 0 || after == end || *after != '-') return std::nullopt;
  return pid;
}

std::vector<std::string> control_names(const Fd& folder) {
  std::vector<std::string> names;
  const int copy = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return names;
  const std::unique_ptr<DIR, CloseFolder> entries(::fdopendir(copy));
  if (!entries) {
    ::close(copy);
    return names;
  }
  while (const dirent* entry = ::readdir(entries.get()))
    if (pid_in(entry->d_name)) names.emplace_back(entry->d_name);
  std::ranges::sort(names);
  return names;
}

sockaddr_un control_address(const Fd& folder, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = fmt::format("/proc/self/fd/{}/{}", folder.get(), name);
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  return address;
}

}  // namespace hvdrun
