// What it means when ssh ends before the agent has greeted: a pure function, in a user's words.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

// Why the agent of hvdrun has ended with this exit code before it greeted; `errors` as below.
std::string explain_agent_end(int code, std::string_view errors, const std::string& agent_path);

// What `who` (ssh, libssh) says of a login that failed, as advice where there is one.
std::string explain_login_failure(std::string_view who, std::string_view errors,
                                  std::string_view host);

// Without the host's name, so that hosts with one trouble can be told together: "login refused
// (…); `ssh HOST true` must work without a password". `wait_status` as of wait(2), `errors` what it
// has printed on stderr (where `host` becomes HOST), `agent_path` as it was asked for.
std::string explain_ssh_failure(int wait_status, std::string_view errors, std::string_view host,
                                const std::string& agent_path);

// Why ssh lost the connection of an agent that had been reached, from its exit status and what it
// printed: "ssh: Timeout, server n2 not responding." Empty when it ended for another reason.
std::string explain_lost_connection(int wait_status, std::string_view errors);

}  // namespace hvdrun
