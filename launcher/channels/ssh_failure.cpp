#include "channels/ssh_failure.hpp"

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/text_lines.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

struct SshHint {
  std::string_view words;  // in ssh's message
  std::string_view advice;
};

constexpr std::array kLoginHints{
    SshHint{"was revoked",
            "its key has been revoked: a file of known hosts has a @revoked line for it"},
    SshHint{"Host key verification failed",
            "its key is not known here, or has changed; compare it and log in once with ssh, or "
            "take new ones with --ssh-accept-new"},
    SshHint{"Permission denied",
            "the login was refused; `ssh HOST true` must work without a "
            "password: put a key there, or give one with -i"},
    SshHint{"Could not resolve hostname", "there is no such name; check -H or the hostfile"},
    SshHint{"Connection refused", "no ssh server answers there; check the host and the port (-p)"},
    SshHint{"timed out", "it does not answer"},
    SshHint{"No route to host", "it cannot be reached from here"},
    SshHint{"Too many authentication failures",
            "ssh offered too many keys; name the right one "
            "with -i"},
};

// In messages of ssh and libssh when a server closes the connection before the login.
constexpr std::array<std::string_view, 6> kCuts{
    "kex_exchange_identification: ", "ssh_exchange_identification: ", "Exceeded MaxStartups",
    "Connection closed by ",         "Connection reset by ",          "Socket error: "};
// ssh also prints such a message after a failure between a jump host and the host, of a
// ProxyCommand, or after the login. Then one of these words is there.
constexpr std::array<std::string_view, 5> kOtherReasons{
    "stdio forwarding failed", "not found", "No such file or directory", "Read from remote host",
    "no command can be started"};
constexpr std::string_view kCutAdvice =
    "an ssh server on the way closed the connection before the login; it may have had too many at "
    "once: raise MaxStartups in its sshd_config";

std::string_view last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const auto newline = text.find_last_of('\n');
  return newline == std::string_view::npos ? text : text.substr(newline + 1);
}

// Returns the line of `text` that has `words`; empty if there is none.
std::string_view line_with(std::string_view text, std::string_view words) {
  const auto at = text.find(words);
  if (at == std::string_view::npos) return {};
  const auto before = text.rfind('\n', at);
  const auto begin = before == std::string_view::npos ? 0 : before + 1;
  return last_line(text.substr(begin, text.find('\n', at) - begin));
}

// Returns ssh's line with HOST for the host's name where that is a whole word. So the line is the
// same for all hosts.
std::string without_name(std::string_view line, std::string_view host) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  };
  std::string text;
  while (!line.empty()) {
    const auto at = host.empty() ? std::string_view::npos : line.find(host);
    if (at == std::string_view::npos) break;
    const auto end = at + host.size();
    const bool is_word =
        (at == 0 || !is_part(line[at - 1])) && (end == line.size() || !is_part(line[end]));
    text += line.substr(0, at);
    text += is_word ? "HOST" : host;
    line.remove_prefix(end);
  }
  return text.append(line);
}

std::string name_killer(int wait_status) {
  return "ssh was killed by " + signal_name(WTERMSIG(wait_status));
}

}  // namespace

std::string explain_agent_end(int code, std::string_view errors, const std::string& agent_path) {
  if (const auto line = line_with(errors, "error while loading shared libraries"); !line.empty())
    return fmt::format("a library of hvdrun is missing there: {}", line);
  if (code == kExitNotFound)
    return fmt::format(
        "hvdrun not found at {}; install the same version there, or say where it is "
        "with --agent-path",
        agent_path);
  if (code == kExitNotExecutable)
    return fmt::format("{} cannot be executed there: {}", agent_path, last_line(errors));
  if (const auto line = last_line(errors); !line.empty()) return std::string(line);
  return fmt::format("hvdrun ended there with exit code {} and no message", code);
}

std::string explain_login_failure(std::string_view program, std::string_view errors,
                                  std::string_view host) {
  for (const auto& hint : kLoginHints)
    if (const auto line = line_with(errors, hint.words); !line.empty())
      return fmt::format("{} ({})", hint.advice, without_name(line, host));
  const auto line = last_line(errors);
  if (was_cut_before_login(errors))
    return fmt::format("{} ({})", kCutAdvice, without_name(line, host));
  return line.empty() ? fmt::format("{} failed without a word", program) : without_name(line, host);
}

bool was_cut_before_login(std::string_view errors) {
  const auto is_in = [errors](std::string_view words) { return contains(errors, words); };
  return std::ranges::any_of(kCuts, is_in) && std::ranges::none_of(kOtherReasons, is_in) &&
         std::ranges::none_of(kLoginHints, is_in, &SshHint::words);
}

std::string explain_lost_connection(int wait_status, std::string_view errors) {
  if (WIFSIGNALED(wait_status)) return name_killer(wait_status);
  if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != kSshFailed) return {};
  const auto line = last_line(errors);
  return line.empty() ? std::string() : fmt::format("ssh: {}", line);
}

std::string explain_ssh_failure(int wait_status, std::string_view errors, std::string_view host,
                                const std::string& agent_path) {
  if (WIFSIGNALED(wait_status)) return name_killer(wait_status);
  const int code = WEXITSTATUS(wait_status);
  if (code != kSshFailed) return explain_agent_end(code, errors, agent_path);
  return explain_login_failure("ssh", errors, host);
}

}  // namespace hvdrun
