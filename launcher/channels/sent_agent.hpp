// The agent that a launcher sends to hosts that have no hvdrun, or another version of it: the
// launcher's own program file. It is kept there in the user's cache folder:
//
//   $XDG_CACHE_HOME/hvdrun/0.1.0-9c6333d582edbf39/agent.SHA256
//
// The folder's name has the version and the program's build id, so that two launchers share a file
// only if they are the same program. A host uses the file only if its content has that SHA-256, and
// if none but the user and root can change the folder or a folder above it, up to the home folder.
// The file "used" beside it has the time of the last start. A host that receives a version removes
// the versions that were not started for 90 days.
//
// Pure functions and values, for any thread, except those that read this program's file. A host
// runs the commands in its /bin/sh; it needs sha256sum or shasum, and programs that POSIX
// describes.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct SentAgent {
  std::string key;      // the folder's name
  std::string cache;    // the launcher's XDG_CACHE_HOME; "": the host's own, or ~/.cache there
  std::string machine;  // the launcher's kind of processor, as of uname(2): "x86_64"
};

// Returns this program as an agent to send. `caller`: its environment. Returns nullopt if it has no
// build id.
std::optional<SentAgent> sent_agent(const Environment& caller);

struct AgentFile {
  std::string content;
  std::string sha256;  // in hexadecimal digits
};

// Reads this program's file. Error: it cannot be read.
Result<AgentFile> read_agent_file();

// Returns the argv that starts hvdrun on a host: the sent one if it is there, otherwise the one at
// `path`. If the host has neither, the command prints nothing and ends with kExitNotFound.
std::vector<std::string> start_command(const SentAgent& agent, const std::string& path,
                                       const std::vector<std::string>& arguments);

// Returns the argv that receives the file on stdin and puts it into its folder, under its name only
// when it is complete. It reads stdin to the end also if the file is already there. If it fails,
// its last line on stderr is why, with the remedy.
std::vector<std::string> receive_command(const SentAgent& agent, const AgentFile& file);

// Why a host has no hvdrun that can be used.
struct AgentLack {
  std::string what;  // for a message: "hvdrun not found at /opt/hvdrun"
  bool is_other_version = false;
};

// Follows `what` in AgentChannel::note().
inline constexpr const char* kWasSent =
    "; the launcher's was sent there (install the same version on both)";

// Returns what the host lacks, if an agent ended because the host has no hvdrun that can be used.
// Returns nullopt if it ended for another reason. `errors`: what it printed on stderr.
std::optional<AgentLack> find_lack(int exit_code, std::string_view errors, const std::string& path);

}  // namespace hvdrun
