#include "agent/hello.hpp"

#include "agent/host_facts.hpp"
#include "agent/pmix_library.hpp"
#include "base/version.hpp"
#include "common/system.hpp"

#include <optional>
#include <utility>

#include <unistd.h>

namespace hvdrun {

HelloMessage make_hello(AgentOptions& options, std::vector<HeldPort>& ports,
                        std::map<std::string, common::Address>& addresses) {
  std::optional<HostFactsSearch> facts;
  if (options.reports_facts) facts.emplace(options.route, options.names);
  HelloMessage hello{kProtocolVersion, kVersion,           local_host_name(),
                     ::getpid(),       options.route.text, options.inventory};
  if (auto held = hold_ports(options.ports, options.master_port)) ports = std::move(*held);
  hello.ports = numbers_of(ports);
  if (options.pmix == PmixMode::automatic)
    if (const auto library = PmixLibrary::open(); !library) {
      hello.pmix_error = library.error().message;
      options.pmix = PmixMode::off;
    }
  if (facts) {
    hello.facts = facts->finish();
    addresses = facts->addresses();
  }
  return hello;
}

}  // namespace hvdrun
