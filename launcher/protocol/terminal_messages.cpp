#include "protocol/terminal_messages.hpp"

#include "protocol/wire.hpp"

namespace hvdrun {

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
