// Parses any bytes as the credentials on an agent's stdin and as an agent's hello over TLS.
#include "expect.hpp"
#include "protocol/agent_hello.hpp"

#include <cstdint>

using namespace hvdrun;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(is_whole_credentials(text));
  if (const auto credentials = parse_credentials(text)) {
    const auto again = parse_credentials(pack_credentials(*credentials));
    FUZZ_EXPECT(again && again->key.secret == credentials->key.secret &&
                again->addresses.size() == credentials->addresses.size());
  }
  if (const auto hello = parse_agent_hello(text); hello && *hello) {
    const auto again = parse_agent_hello(pack_agent_hello(**hello));
    FUZZ_EXPECT(again && *again && (*again)->host == (*hello)->host);
  }
  return 0;
}
