#include "protocol/agent_hello.hpp"

#include "base/system.hpp"
#include "base/version.hpp"
#include "common/net/address.hpp"
#include "common/system.hpp"
#include "common/text.hpp"
#include "common/wire.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::string_view kName = "hvdrun";
constexpr std::string_view kEnd = "end\n";
constexpr std::size_t kMaxIdentity = 64;
constexpr std::chrono::seconds kMaxTimeout{24 * 3600};
constexpr std::size_t kMaxWords = 4;
constexpr char kAccept = 'W';

// Returns the words of a line, split at single spaces; empty if there are more than any line has.
std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const auto space = line.find(' ');
    words.push_back(line.substr(0, space));
    if (words.size() > kMaxWords) return {};
    if (space == std::string_view::npos) return words;
    line.remove_prefix(space + 1);
  }
}

template <class Number>
bool read_number(std::string_view text, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_printable(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

bool read_key(std::string_view identity, std::string_view digits, TlsKey& key) {
  if (!is_printable(identity) || identity.size() > kMaxIdentity ||
      digits.size() != 2 * key.secret.size())
    return false;
  key.identity = identity;
  for (std::size_t i = 0; i < key.secret.size(); ++i)
    if (!read_number(digits.substr(2 * i, 2), key.secret[i], 16)) return false;
  return true;
}

bool read_line(const std::vector<std::string_view>& words, AgentCredentials& credentials) {
  if (words.size() == 3 && words[0] == "key") return read_key(words[1], words[2], credentials.key);
  if (words.size() == 2 && words[0] == "timeout") {
    std::uint32_t seconds = 0;
    if (!read_number(words[1], seconds)) return false;
    credentials.timeout = std::chrono::seconds(seconds);
    return credentials.timeout <= kMaxTimeout;
  }
  if (words.size() == 3 && words[0] == "address") {
    LinkAddress address{std::string(words[1]), 0};
    if (!read_number(words[2], address.port) || !parse_address(address.address)) return false;
    credentials.addresses.push_back(std::move(address));
    return credentials.addresses.size() <= kMaxAddresses;
  }
  return false;
}

bool is_complete(const AgentCredentials& credentials) {
  return !credentials.key.identity.empty() && !credentials.addresses.empty() &&
         credentials.timeout.count() > 0;
}

Error malformed_credentials() {
  return fail("this is hvdrun's agent, which only hvdrun can start");
}

}  // namespace

TlsKey make_link_key(std::string identity) {
  TlsKey key;
  key.identity = std::move(identity);
  if (!fill_random(key.secret)) end_process("cannot get random bytes", errno);
  return key;
}

std::string pack_credentials(const AgentCredentials& credentials) {
  std::string text = fmt::format("{} {}\nkey {} {:02x}\ntimeout {}\n", kName, credentials.version,
                                 credentials.key.identity, fmt::join(credentials.key.secret, ""),
                                 credentials.timeout.count());
  for (const auto& [address, port] : credentials.addresses)
    text += fmt::format("address {} {}\n", address, port);
  text += kEnd;
  return text;
}

bool is_whole_credentials(std::string_view text) {
  if (text.size() > kMaxCredentials) return true;
  if (text.substr(0, kName.size()) != kName.substr(0, text.size())) return true;
  return text.find("\nend\n") != std::string_view::npos;
}

Result<AgentCredentials> parse_credentials(std::string_view text) {
  if (text.size() > kMaxCredentials) return malformed_credentials();
  AgentCredentials credentials;
  bool first = true;
  while (true) {
    const auto newline = text.find('\n');
    if (newline == std::string_view::npos) return malformed_credentials();
    const auto line = text.substr(0, newline);
    text.remove_prefix(newline + 1);
    if (line == "end") break;
    const auto words = split(line);
    if (first) {
      if (words.size() != 2 || words[0] != kName || !is_printable(words[1]))
        return malformed_credentials();
      credentials.version = words[1];
      // Checked first, because another version may have other lines.
      if (credentials.version != kVersion)
        return fail(fmt::format("hvdrun here is version {}, the launcher's is {}: install the same "
                                "on both",
                                kVersion, quote_if_needed(credentials.version)),
                    kExitUsage);
      first = false;
    } else if (!read_line(words, credentials)) {
      return malformed_credentials();
    }
  }
  if (!is_complete(credentials)) return malformed_credentials();
  return credentials;
}

std::string pack_agent_hello(const AgentHello& hello) {
  return fmt::format("{} {} {}\n", kName, hello.host, hello.task);
}

Result<std::optional<AgentHello>> parse_agent_hello(std::string_view text) {
  const auto newline = text.find('\n');
  if (newline == std::string_view::npos) {
    if (text.size() >= kMaxAgentHello) return fail("an agent's hello is too long");
    return std::nullopt;
  }
  const auto words = split(text.substr(0, newline));
  AgentHello hello;
  if (newline >= kMaxAgentHello || newline + 1 != text.size() || words.size() != 3 ||
      words[0] != kName || !is_printable(words[1]) || !read_number(words[2], hello.task))
    return fail("an agent's hello is malformed");
  hello.host = words[1];
  return hello;
}

std::string pack_agent_accept(std::uint32_t agent) {
  std::string bytes(kAgentAcceptSize, kAccept);
  wire::store(&bytes[1], agent);
  return bytes;
}

Result<std::uint32_t> parse_agent_accept(std::string_view bytes) {
  if (bytes.size() != kAgentAcceptSize || bytes.front() != kAccept)
    return fail("the launcher's answer is malformed");
  return wire::load<std::uint32_t>(&bytes[1]);
}

}  // namespace hvdrun
