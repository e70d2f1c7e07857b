// What launcher and agent exchange about a rank's terminal. Pure functions; parse_window() accepts
// any bytes and returns an error for a malformed message.
#pragma once

#include "base/result.hpp"
#include "base/terminal.hpp"

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace hvdrun {

// Converts settings to and from a part of a message. terminal_of throws nlohmann::json::exception
// if the JSON is none.
nlohmann::json terminal_json(const TerminalSettings& settings);
TerminalSettings terminal_of(const nlohmann::json& json);

// launcher → agent: rank u32 | rows u32 | columns u32.
struct WindowMessage {
  std::uint32_t rank = 0;
  WindowSize size;
};
std::string pack_window(const WindowMessage&);
Result<WindowMessage> parse_window(std::string_view payload);

}  // namespace hvdrun
