// What launcher and an agent that srun has started say to each other before they speak frames.
//
// The credentials goes from the launcher through srun's stdin to each agent: where to connect, and
// the key. Lines of text, each a name and its values:
//
//   hvdrun 0.1.0
//   key IDENTITY 64-HEX-DIGITS
//   timeout SECONDS
//   address 10.80.0.1 40123
//   end
//
// The hello is the first that an agent says once TLS stands, one line: "hvdrun HOST TASK".
// The launcher answers with the welcome, the byte 'W' and the agent's number (u32, little endian);
// from there on both speak frames.
//
// Parsers refuse what does not fit and never crash on any bytes.
#pragma once

#include "base/result.hpp"
#include "channels/tls_stream.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct LinkAddress {
  std::string address;  // IPv4 or IPv6, in numbers
  std::uint16_t port = 0;
};

struct AgentCredentials {
  std::string version;  // of hvdrun
  LinkKey key;
  std::chrono::seconds timeout{0};     // how long to try
  std::vector<LinkAddress> addresses;  // to be tried in this order
};

inline constexpr std::size_t kMaxCredentials = 8192;
inline constexpr std::size_t kMaxAddresses = 64;

std::string pack_credentials(const AgentCredentials& credentials);

// Whether `text` holds a whole credentials, or can never become one.
bool is_whole_credentials(std::string_view text);

// Error: it is not one; what the launcher's version is when that is another.
Result<AgentCredentials> parse_credentials(std::string_view text);

struct AgentHello {
  std::string host;        // as SLURM calls it: SLURMD_NODENAME
  std::uint32_t task = 0;  // of the step: SLURM_PROCID
};

inline constexpr std::size_t kMaxAgentHello = 300;  // a host name has at most 255 bytes
inline constexpr std::size_t kAgentAcceptSize = 5;

std::string pack_agent_hello(const AgentHello& hello);

// Nothing: the line is not complete yet. Error: it never will be one.
Result<std::optional<AgentHello>> parse_agent_hello(std::string_view text);

// kAgentAcceptSize bytes.
std::string pack_agent_accept(std::uint32_t agent);

// Error: it is none.
Result<std::uint32_t> parse_agent_accept(std::string_view bytes);

}  // namespace hvdrun
