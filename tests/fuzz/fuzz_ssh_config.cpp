// Parses any bytes as the output of `ssh -G`. An accepted configuration must have what a login
// needs. An error must be one line.
#include "channels/ssh_config.hpp"
#include "expect.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config =
      hvdrun::parse_ssh_config({reinterpret_cast<const char*>(data), size}, "/home/user");
  if (config) {
    FUZZ_EXPECT(!config->host.empty() && !config->user.empty());
    FUZZ_EXPECT(config->port >= 1 && config->port <= 65535);
  } else {
    FUZZ_EXPECT(!config.error().message.empty());
    FUZZ_EXPECT(config.error().message.find('\n') == std::string::npos);
  }
  return 0;
}
