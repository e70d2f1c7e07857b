// The folders that hold the sockets of this user's running hvdruns, and the sockets' names.
//
// A socket is in the first of these folders that can be used: $XDG_RUNTIME_DIR/hvdrun,
// /run/user/UID/hvdrun, /tmp/hvdrun-UID, $TMPDIR/hvdrun-UID. If another user has taken them, it is
// in /tmp/hvdrun-UID-XXXXXX, with a random name. All of them are looked into, because the job and
// the command that looks for it may have other environments. A folder is used only if it is this
// user's own and closed to all others: in /tmp anyone can make a folder of that name.
//
// Plain functions for any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>
#include <sys/un.h>

namespace hvdrun {

// Returns where the folders with a fixed name are, the best first. They may not exist.
std::vector<std::filesystem::path> control_folders(const Environment& environment);

// Returns this user's folders with a random name. Reads /tmp and $TMPDIR, which may be large.
std::vector<std::filesystem::path> other_control_folders(const Environment& environment);

// Opens a folder. Error: it is not there, or not safe; the message says which.
Result<Fd> open_control_folder(const std::filesystem::path& folder);

// Makes the folder, unless it is there, and opens it.
Result<Fd> make_control_folder(const std::filesystem::path& folder);

// Makes a folder with a random name, for when another user has taken the others, and returns its
// path. Error: there can be none.
Result<std::filesystem::path> make_other_control_folder(const Environment& environment);

// A socket's name: "PID-ID", of hvdrun's process and of its job.
std::string control_name(pid_t pid, const std::string& job_id);
// Returns the pid; nullopt: it is no such name.
std::optional<pid_t> pid_in(std::string_view control_name);

// Returns the names of the sockets in an open folder.
std::vector<std::string> control_names(const Fd& folder);

// Returns the address of a name in an open folder. The folder's own path, which may be too long for
// an address, or another folder by now, is not in it.
sockaddr_un control_address(const Fd& folder, const std::string& name);

}  // namespace hvdrun
