// What launcher and agent exchange about a rank's terminal. Pure functions; parse_window() accepts
// any bytes and returns an error for a malformed message.
#pragma once

#include "base/result.hpp"
#include "base/terminal.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace hvdrun {

// launcher → agent: rank u32 | rows u32 | columns u32.
struct WindowMessage {
  std::uint32_t rank = 0;
  WindowSize size;
};
std::string pack_window(const WindowMessage&);
Result<WindowMessage> parse_window(std::string_view payload);

}  // namespace hvdrun
