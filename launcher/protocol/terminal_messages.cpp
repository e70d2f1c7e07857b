#include "protocol/terminal_messages.hpp"

#include "common/wire.hpp"

#include <cstddef>
#include <iterator>
#include <vector>

#include <nlohmann/json.hpp>

namespace hvdrun {

// Linux has the same flags and control characters on all machines that CUDA knows.
nlohmann::json terminal_json(const TerminalSettings& settings) {
  const termios& modes = settings.modes;
  return {{"size", {settings.size.rows, settings.size.columns}},
          {"flags", {modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag}},
          {"characters", std::vector<int>(std::begin(modes.c_cc), std::end(modes.c_cc))}};
}

TerminalSettings terminal_of(const nlohmann::json& json) {
  TerminalSettings settings;
  json.at("size").at(0).get_to(settings.size.rows);
  json.at("size").at(1).get_to(settings.size.columns);
  termios& modes = settings.modes;
  const auto& flags = json.at("flags");
  flags.at(0).get_to(modes.c_iflag);
  flags.at(1).get_to(modes.c_oflag);
  flags.at(2).get_to(modes.c_cflag);
  flags.at(3).get_to(modes.c_lflag);
  for (std::size_t i = 0; i < std::size(modes.c_cc); ++i)
    modes.c_cc[i] = json.at("characters").at(i).get<cc_t>();
  return settings;
}

std::string pack_window(const WindowMessage& message) {
  std::string packed(12, '\0');
  wire::store(packed.data(), message.rank);
  wire::store(packed.data() + 4, static_cast<std::uint32_t>(message.size.rows));
  wire::store(packed.data() + 8, static_cast<std::uint32_t>(message.size.columns));
  return packed;
}

Result<WindowMessage> parse_window(std::string_view payload) {
  if (payload.size() != 12) return fail("a window's size on the link has the wrong length");
  WindowMessage message;
  message.rank = wire::load<std::uint32_t>(payload.data());
  message.size.rows = static_cast<int>(wire::load<std::uint32_t>(payload.data() + 4));
  message.size.columns = static_cast<int>(wire::load<std::uint32_t>(payload.data() + 8));
  return message;
}

}  // namespace hvdrun
