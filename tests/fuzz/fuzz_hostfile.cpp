// Parses any bytes as a hostfile. Accepted hosts must be safe arguments of ssh. An error must be
// one line that names the file.
#include "base/host_list.hpp"
#include "expect.hpp"
#include "resources/hostfile.hpp"
#include "resources/requested_hosts.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto requests = hvdrun::parse_hostfile(text, "file");
  if (!requests) {
    FUZZ_EXPECT(requests.error().message.rfind("file:", 0) == 0);
    FUZZ_EXPECT(requests.error().message.find('\n') == std::string::npos);
    FUZZ_EXPECT(requests.error().exit_code == hvdrun::kExitUsage);
    return 0;
  }
  FUZZ_EXPECT(!requests->empty() && requests->size() <= hvdrun::kMaxHosts);
  for (const auto& request : *requests) {
    FUZZ_EXPECT(!request.name.empty() && request.name.front() != '-');
    FUZZ_EXPECT(request.name.find_first_of(" \t\r\n;&|$`\"'\\/") == std::string::npos);
    FUZZ_EXPECT(request.user.empty() || hvdrun::is_host_name(request.user));
    FUZZ_EXPECT(!request.slots || *request.slots > 0);
    FUZZ_EXPECT(!request.port || (*request.port > 0 && *request.port < 65536));
  }
  const auto hosts = hvdrun::requested_hosts({}, *requests, "file", {"n1", {}});
  if (hosts) {
    FUZZ_EXPECT(!hosts->empty() && hosts->size() <= requests->size());
  } else {
    FUZZ_EXPECT(hosts.error().message.find('\n') == std::string::npos);
  }
  return 0;
}
