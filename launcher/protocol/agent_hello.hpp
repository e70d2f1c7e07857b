// The messages between the launcher and an agent that srun has started, before their frames. Pure
// functions and values, for any thread.
//
// The launcher sends the credentials through srun's stdin to each agent: the addresses to connect
// to, and the key. They are lines of text, each a name and its values:
//
//   hvdrun 0.1.0
//   key IDENTITY 64-HEX-DIGITS
//   timeout SECONDS
//   address 10.80.0.1 40123
//   end
//
// After the TLS handshake the agent sends its hello, one line: "hvdrun HOST TASK". The launcher
// answers with the accept: the byte 'W' and the agent's number (u32, little endian). After that
// both send frames.
//
// Parsers return an error for malformed text, and accept any bytes without a crash.
#pragma once

#include "base/result.hpp"
#include "common/net/tls.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct LinkAddress {
  std::string address;  // IPv4 or IPv6, numeric
  std::uint16_t port = 0;
};

struct AgentCredentials {
  std::string version;  // of hvdrun
  TlsKey key;
  std::chrono::seconds timeout{0};     // how long to try to connect
  std::vector<LinkAddress> addresses;  // to try in this order
};

inline constexpr std::size_t kMaxCredentials = 8192;  // bytes
inline constexpr std::size_t kMaxAddresses = 64;

// Makes a new key from the kernel's random numbers. Ends the process if there are none.
TlsKey make_link_key(std::string identity);

std::string pack_credentials(const AgentCredentials& credentials);

// Returns whether no more text is needed: `text` has whole credentials, or can never become them.
bool is_whole_credentials(std::string_view text);

// Parses credentials. Error: they are malformed, or of another version of hvdrun (kExitUsage; the
// message names both versions).
Result<AgentCredentials> parse_credentials(std::string_view text);

struct AgentHello {
  std::string host;        // SLURM's name of it: SLURMD_NODENAME
  std::uint32_t task = 0;  // its number in the step: SLURM_PROCID
};

inline constexpr std::size_t kMaxAgentHello = 300;  // a host name has at most 255 bytes
inline constexpr std::size_t kAgentAcceptSize = 5;

std::string pack_agent_hello(const AgentHello& hello);

// Parses a hello. Returns nullopt if the line is not complete yet. Error: it is malformed, or too
// long.
Result<std::optional<AgentHello>> parse_agent_hello(std::string_view text);

// Returns kAgentAcceptSize bytes.
std::string pack_agent_accept(std::uint32_t agent);

// Returns the agent's number. Error: the bytes are no accept.
Result<std::uint32_t> parse_agent_accept(std::string_view bytes);

}  // namespace hvdrun
