// Parses any bytes as a list of hosts and as a value of -H. An accepted list must fold to a form
// that names the same hosts.
#include "base/host_list.hpp"
#include "expect.hpp"
#include "model/host_request.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto hosts = hvdrun::expand_host_list(text);
  if (hosts) {
    FUZZ_EXPECT(!hosts->empty() && hosts->size() <= hvdrun::kMaxHosts);
    for (const auto& host : *hosts) FUZZ_EXPECT(hvdrun::is_host_name(host));
    auto again = hvdrun::expand_host_list(hvdrun::fold_hosts(*hosts));
    FUZZ_EXPECT(again);
    std::sort(hosts->begin(), hosts->end());
    std::sort(again->begin(), again->end());
    FUZZ_EXPECT(*hosts == *again);
  } else {
    FUZZ_EXPECT(hosts.error().message.find('\n') == std::string::npos);
  }

  const auto requests = hvdrun::parse_host_requests(text, "-H");
  if (requests) {
    FUZZ_EXPECT(!requests->empty() && requests->size() <= hvdrun::kMaxHosts);
    const auto again = hvdrun::parse_host_requests(hvdrun::fold_host_requests(*requests), "-H");
    FUZZ_EXPECT(again && again->size() == requests->size());
  } else {
    FUZZ_EXPECT(requests.error().message.find('\n') == std::string::npos);
  }
  return 0;
}
