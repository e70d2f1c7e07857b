#include "channels/ssh_config.hpp"

#include "base/files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// A setting that libssh ignores or handles differently from ssh, except with a value for which
// is_plain() returns true.
struct Beyond {
  std::string_view keyword;
  std::string_view name;  // as in ssh_config(5)
  std::string_view plain = "none";
};

constexpr std::array kBeyond{
    Beyond{"addressfamily", "AddressFamily", "any"},
    Beyond{"bindaddress", "BindAddress"},
    Beyond{"bindinterface", "BindInterface"},
    Beyond{"canonicalizehostname", "CanonicalizeHostname"},
    Beyond{"certificatefile", "CertificateFile"},
    Beyond{"controlmaster", "ControlMaster"},
    Beyond{"controlpath", "ControlPath"},
    Beyond{"hostbasedauthentication", "HostbasedAuthentication"},
    Beyond{"hostkeyalias", "HostKeyAlias"},
    Beyond{"identitiesonly", "IdentitiesOnly"},
    Beyond{"identityagent", "IdentityAgent", "SSH_AUTH_SOCK"},
    Beyond{"knownhostscommand", "KnownHostsCommand"},
    Beyond{"permitlocalcommand", "PermitLocalCommand"},
    Beyond{"pkcs11provider", "PKCS11Provider"},
    Beyond{"proxycommand", "ProxyCommand"},
    Beyond{"proxyjump", "ProxyJump"},
    Beyond{"pubkeyauthentication", "PubkeyAuthentication", "true"},
    Beyond{"revokedhostkeys", "RevokedHostKeys"},
    Beyond{"securitykeyprovider", "SecurityKeyProvider", "internal"},
    Beyond{"verifyhostkeydns", "VerifyHostKeyDNS"},
};

// With each of these settings another process has the connection.
constexpr std::array<std::string_view, 4> kIndirect{"controlmaster", "controlpath", "proxycommand",
                                                    "proxyjump"};

// What ssh needs in order to run a command and to carry its streams. Only the versions of ssh that
// know a keyword print it.
struct Needed {
  std::string_view keyword;
  std::string_view value;
  std::string_view option;
};

constexpr std::array kNeeded{
    Needed{"forkafterauthentication", "no", "ForkAfterAuthentication=no"},
    Needed{"remotecommand", "none", "RemoteCommand=none"},
    Needed{"sessiontype", "default", "SessionType=default"},
    Needed{"stdinnull", "no", "StdinNull=no"},
};

bool is_plain(std::string_view value, const Beyond& beyond) {
  if (beyond.plain == "true") return value == "true";
  return value == beyond.plain || value == "none" || value == "no" || value == "false";
}

std::string_view next_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const auto line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string_view next_word(std::string_view& text) {
  constexpr std::string_view kBlanks = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  const auto word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  return word;
}

// libssh 0.9 reads only shorter lines, bytes.
constexpr std::size_t kLongestKeyLine = 8192;
constexpr std::size_t kLargestKnownHosts = std::size_t{64} << 20;

// The types that every libssh since 0.9 knows.
bool is_known_type(std::string_view type) {
  constexpr std::array<std::string_view, 5> kTypes{"ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256",
                                                   "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

bool is_base64(std::string_view text) {
  const auto padding = text.find('=');
  const auto end = std::min(padding, text.size());
  return end > 0 && text.size() % 4 == 0 && text.size() - end <= 2 &&
         std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  c == '+' || c == '/';
         });
}

std::string line_beyond_libssh(std::string_view line) {
  std::string_view rest = line;
  const auto hosts = next_word(rest);
  if (hosts.empty() || hosts.front() == '#') return {};
  if (hosts.front() == '@') return std::string(hosts);
  if (hosts.find('!') != std::string_view::npos) return "a negated pattern";
  const auto type = next_word(rest);
  if (!is_known_type(type)) return fmt::format("a key of type \"{}\"", type);
  if (!is_base64(next_word(rest)) || line.size() >= kLongestKeyLine) return "a key it cannot read";
  return {};
}

class Reader {
 public:
  explicit Reader(const std::string& home) : home_(home) {}

  Result<void> take(std::string_view keyword, std::string_view value) {
    for (const auto& beyond : kBeyond)
      if (keyword == beyond.keyword && !is_plain(value, beyond))
        return fail(std::string(beyond.name));
    if (keyword == "hostname") config_.host = value;
    if (keyword == "user") config_.user = value;
    if (keyword == "port") return take_port(value);
    if (keyword == "connecttimeout") return take_timeout(value);
    if (keyword == "identityfile") config_.identities.emplace_back(value);
    if (keyword == "userknownhostsfile")
      return take_known_hosts("UserKnownHostsFile", value, config_.known_hosts);
    if (keyword == "globalknownhostsfile")
      return take_known_hosts("GlobalKnownHostsFile", value, config_.global_known_hosts);
    if (keyword == "stricthostkeychecking") return take_strictness(value);
    if (keyword == "ciphers") config_.ciphers = value;
    if (keyword == "macs") config_.macs = value;
    if (keyword == "kexalgorithms") config_.key_exchanges = value;
    if (keyword == "hostkeyalgorithms") config_.host_keys = value;
    if (keyword == "pubkeyacceptedalgorithms") config_.public_keys = value;
    return {};
  }

  Result<SshConfig> finish() {
    if (config_.host.empty() || config_.user.empty())
      return fail("the configuration, which ssh -G has not printed");
    return std::move(config_);
  }

 private:
  Result<void> take_port(std::string_view value) {
    const auto* end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, config_.port);
    if (parsed.ec != std::errc() || parsed.ptr != end || config_.port < 1 || config_.port > 65535)
      return fail(fmt::format("port {}", value));
    return {};
  }

  // In seconds, or "none".
  Result<void> take_timeout(std::string_view value) {
    int seconds = 0;
    const auto* end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, seconds);
    if (parsed.ec == std::errc() && parsed.ptr == end && seconds > 0)
      config_.connect_timeout = std::chrono::seconds(seconds);
    else if (value != "none")
      return fail(fmt::format("ConnectTimeout {}", value));
    return {};
  }

  // ssh -G prints names with blanks without quotes: then a word is no absolute path. Some versions
  // leave "~" unexpanded.
  Result<void> take_known_hosts(std::string_view keyword, std::string_view value,
                                std::string& first) {
    first.clear();
    for (auto word = next_word(value); !word.empty(); word = next_word(value)) {
      const std::string file =
          word.starts_with("~/") ? home_ + std::string(word.substr(1)) : std::string(word);
      if (!file.starts_with('/') || file.find_first_of("%$") != std::string::npos)
        return fail(fmt::format("{} {}", keyword, word));
      if (first.empty())
        first = file;
      else
        config_.unread_known_hosts.push_back(file);
    }
    return {};
  }

  Result<void> take_strictness(std::string_view value) {
    if (value == "false") return fail("StrictHostKeyChecking no");
    config_.accepts_new_keys = value == "accept-new";
    return {};
  }

  const std::string& home_;
  SshConfig config_;
};

}  // namespace

std::string beyond_libssh(std::string_view known_hosts) {
  while (!known_hosts.empty())
    if (auto found = line_beyond_libssh(next_line(known_hosts)); !found.empty()) return found;
  return {};
}

Result<void> check_known_hosts(const SshConfig& config) {
  for (const auto& file : {config.known_hosts, config.global_known_hosts}) {
    if (file.empty()) continue;
    HVD_TRY(const auto text, read_file_if_there(file, kLargestKnownHosts,
                                                fmt::format("{}, which it cannot read", file)));
    if (!text) continue;
    if (auto found = beyond_libssh(*text); !found.empty())
      return fail(fmt::format("{} in {}", found, file));
  }
  for (const auto& file : config.unread_known_hosts) {
    HVD_TRY(const auto text, read_file_if_there(file, kLargestKnownHosts,
                                                fmt::format("{}, which it cannot read", file)));
    if (text && !text->empty()) return fail(fmt::format("{}, a further file of known hosts", file));
  }
  return {};
}

SshFacts ssh_facts(std::string_view text) {
  SshFacts facts{true, {}, {}};
  std::string host;
  std::string port;
  while (!text.empty()) {
    auto rest = next_line(text);
    const auto keyword = next_word(rest);
    const auto value = rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
    const bool is_off = value == "none" || value == "no" || value == "false";
    if (keyword == "hostname") host = value;
    if (keyword == "port") port = value;
    if (keyword == "proxyjump" && !is_off) facts.server = value.substr(0, value.find(','));
    if (keyword == "proxycommand" && !is_off) facts.server = value;
    if (!is_off && std::find(kIndirect.begin(), kIndirect.end(), keyword) != kIndirect.end())
      facts.direct = false;
    for (const auto& needed : kNeeded)
      if (keyword == needed.keyword && value != needed.value)
        facts.overrides.insert(facts.overrides.end(), {"-o", std::string(needed.option)});
  }
  if (host.empty()) return {};
  if (facts.server.empty()) facts.server = host + ":" + port;
  return facts;
}

Result<SshConfig> parse_ssh_config(std::string_view text, const std::string& home) {
  Reader reader(home);
  while (!text.empty()) {
    const auto line = next_line(text);
    const auto blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    HVD_CHECK(reader.take(line.substr(0, blank), line.substr(blank + 1)));
  }
  return reader.finish();
}

}  // namespace hvdrun
