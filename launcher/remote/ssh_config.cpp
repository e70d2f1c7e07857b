#include "remote/ssh_config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// What libssh cannot do, or not as ssh does it, unless it has the value that means "not at all".
struct Beyond {
  std::string_view keyword;
  std::string_view name;  // as ssh_config(5) writes it
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
    Beyond{"remotecommand", "RemoteCommand"},
    Beyond{"revokedhostkeys", "RevokedHostKeys"},
    Beyond{"securitykeyprovider", "SecurityKeyProvider", "internal"},
    Beyond{"verifyhostkeydns", "VerifyHostKeyDNS"},
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

std::string first_word(std::string_view text) {
  return std::string(text.substr(0, text.find(' ')));
}

class Reader {
 public:
  Result<void> take(std::string_view keyword, std::string_view value) {
    for (const auto& beyond : kBeyond)
      if (keyword == beyond.keyword && !is_plain(value, beyond))
        return fail(std::string(beyond.name));
    if (keyword == "hostname") config_.host = value;
    if (keyword == "user") config_.user = value;
    if (keyword == "port") return take_port(value);
    if (keyword == "identityfile") config_.identities.emplace_back(value);
    if (keyword == "userknownhostsfile") config_.known_hosts = first_word(value);
    if (keyword == "globalknownhostsfile") config_.global_known_hosts = first_word(value);
    if (keyword == "stricthostkeychecking") return take_strictness(value);
    if (keyword == "ciphers") config_.ciphers = value;
    if (keyword == "macs") config_.macs = value;
    if (keyword == "kexalgorithms") config_.key_exchanges = value;
    if (keyword == "hostkeyalgorithms") config_.host_keys = value;
    if (keyword == "pubkeyacceptedalgorithms") config_.public_keys = value;
    return {};
  }

  Result<SshConfig> finish() {
    if (config_.host.empty() || config_.user.empty()) return fail("no answer of ssh -G");
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

  Result<void> take_strictness(std::string_view value) {
    if (value == "false") return fail("StrictHostKeyChecking no");
    config_.accepts_new_keys = value == "accept-new";
    return {};
  }

  SshConfig config_;
};

}  // namespace

Result<SshConfig> parse_ssh_config(std::string_view text) {
  Reader reader;
  while (!text.empty()) {
    const auto line = next_line(text);
    const auto blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    HVD_CHECK(reader.take(line.substr(0, blank), line.substr(blank + 1)));
  }
  return reader.finish();
}

}  // namespace hvdrun
