// Explains to the user why ssh, libssh or the agent that they started ended before the agent
// greeted, and why ssh lost a connection later. Pure functions, for any thread; they cannot fail.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

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

// Explains why ssh lost the connection of an agent that had greeted: "ssh: Timeout, server n2 not
// responding.", or the signal that killed ssh. Returns "" if ssh ended for another reason.
std::string explain_lost_connection(int wait_status, std::string_view errors);

}  // namespace hvdrun
