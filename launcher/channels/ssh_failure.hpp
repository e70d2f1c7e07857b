// Explains to the user why ssh, libssh or the agent that they started ended before the agent
// greeted, and why ssh lost a connection later. Pure functions, for any thread; they cannot fail.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

// ssh(1): "exits with the exit status of the remote command or with 255 if an error occurred".
inline constexpr int kSshFailed = 255;

// Explains why ssh ended before the agent greeted: "login refused (…); `ssh HOST true` must work
// without a password". The text is without the host's name, so that hosts with the same failure can
// be reported together. `wait_status`: as of wait(2). `errors`: ssh's stderr, in which `host`
// becomes HOST. `agent_path`: hvdrun there.
std::string explain_ssh_failure(int wait_status, std::string_view errors, std::string_view host,
                                const std::string& agent_path);

// Explains why the agent ended with this exit code before it greeted. `errors`: its stderr.
std::string explain_agent_end(int code, std::string_view errors, const std::string& agent_path);

// Explains a failed login by the message of `program` (ssh, libssh), with advice if there is any.
std::string explain_login_failure(std::string_view program, std::string_view errors,
                                  std::string_view host);

// Returns whether the ssh server, or a jump host before it, has closed the connection before the
// login, with no other reason in the message. Another try may succeed then.
bool was_cut_before_login(std::string_view errors);

// Explains why ssh lost the connection of an agent that had greeted: "ssh: Timeout, server n2 not
// responding.", or the signal that killed ssh. Returns "" if ssh ended for another reason.
std::string explain_lost_connection(int wait_status, std::string_view errors);

}  // namespace hvdrun
