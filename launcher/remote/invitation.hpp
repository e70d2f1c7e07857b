// What launcher and an agent that srun has started say to each other before they speak frames.
//
// The invitation goes from the launcher through srun's stdin to each agent: where to connect, and
// the key. Lines of text, each a name and its values:
//
//   hvdrun 0.1.0
//   key IDENTITY 64-HEX-DIGITS
//   patience SECONDS
//   address 10.80.0.1 40123
//   end
//
// The introduction is the first that an agent says once TLS stands, one line: "hvdrun HOST TASK".
// The launcher answers with the welcome, the byte 'W' and the agent's number (u32, little endian);
// from there on both speak frames.
//
// Parsers refuse what does not fit and never crash on any bytes.
#pragma once

#include "base/result.hpp"
#include "remote/tls_stream.hpp"

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

struct Invitation {
  std::string version;  // of hvdrun
  LinkKey key;
  std::chrono::seconds patience{0};    // how long to try
  std::vector<LinkAddress> addresses;  // to be tried in this order
};

inline constexpr std::size_t kMaxInvitation = 8192;
inline constexpr std::size_t kMaxAddresses = 64;

std::string pack_invitation(const Invitation& invitation);

// Whether `text` holds a whole invitation, or can never become one.
bool is_whole_invitation(std::string_view text);

// Error: it is not one; what the launcher's version is when that is another.
Result<Invitation> parse_invitation(std::string_view text);

struct Introduction {
  std::string host;        // as SLURM calls it: SLURMD_NODENAME
  std::uint32_t task = 0;  // of the step: SLURM_PROCID
};

inline constexpr std::size_t kMaxIntroduction = 300;  // a host name has at most 255 bytes
inline constexpr std::size_t kWelcomeSize = 5;

std::string pack_introduction(const Introduction& introduction);

// Nothing: the line is not complete yet. Error: it never will be one.
Result<std::optional<Introduction>> parse_introduction(std::string_view text);

// kWelcomeSize bytes.
std::string pack_welcome(std::uint32_t agent);

// Error: it is none.
Result<std::uint32_t> parse_welcome(std::string_view bytes);

}  // namespace hvdrun
