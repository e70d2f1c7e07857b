#include "channels/ssh_command.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns the argv of ssh without the remote command.
std::vector<std::string> ssh_words(const SshTarget& target, const SshOptions& options) {
  std::vector<std::string> words{options.program, "-T", "-x", "-a", "-o", "BatchMode=yes"};
  const auto set = [&](const std::string& option) {
    words.emplace_back("-o");
    words.push_back(option);
  };
  if (options.direct) {
    set("ServerAliveInterval=0");
  } else if (options.host_timeout.count() > 0) {
    // If ssh has received nothing for a second, it asks its server every second. It ends after
    // ServerAliveCountMax unanswered questions, when the next one is due (ssh_config(5)).
    set("ServerAliveInterval=1");
    set(fmt::format("ServerAliveCountMax={}",
                    std::max<std::int64_t>(options.host_timeout.count() - 1, 1)));
  }
  words.insert(words.end(), options.overrides.begin(), options.overrides.end());
  set("ClearAllForwardings=yes");
  if (options.accept_new) set("StrictHostKeyChecking=accept-new");
  if (!options.identity.empty()) {
    words.emplace_back("-i");
    words.push_back(options.identity);
  }
  if (const auto port = target.port ? target.port : options.port) {
    words.emplace_back("-p");
    words.push_back(std::to_string(*port));
  }
  if (!target.user.empty()) {
    words.emplace_back("-l");
    words.push_back(target.user);
  }
  words.emplace_back("--");
  words.push_back(target.host);
  return words;
}

// Returns whether a word means itself in any shell.
bool is_plain(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '/' || c == '_';
  });
}

}  // namespace

std::string shell_quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string remote_command(const SshOptions& options, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{options.agent_path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  if (options.sent) words = start_command(*options.sent, options.agent_path, arguments);
  std::string line = "exec " + shell_quote(words.front());
  for (auto word = words.begin() + 1; word != words.end(); ++word)
    line += " " + (is_plain(*word) ? *word : shell_quote(*word));
  return line;
}

std::vector<std::string> ssh_config_command(const SshTarget& target, const SshOptions& options) {
  auto words = ssh_words(target, options);
  words.insert(words.begin() + 1, "-G");
  return words;
}

std::vector<std::string> ssh_command(const SshTarget& target, const SshOptions& options,
                                     const std::vector<std::string>& arguments) {
  auto words = ssh_words(target, options);
  words.push_back(remote_command(options, arguments));
  return words;
}

}  // namespace hvdrun
