#include "agent/master_probe.hpp"

#include "common/net/tcp.hpp"
#include "common/system.hpp"
#include "common/variables.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

std::string value_of(const LaunchRank& rank, const std::string& name) {
  for (const auto& [each, value] : rank.environment)
    if (each == name) return value;
  return {};
}

std::optional<common::Address> address_of(const std::string& name, const std::string& port,
                                          const std::map<std::string, common::Address>& known) {
  std::uint16_t number = 0;
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || number == 0) return std::nullopt;
  if (const auto address = common::parse_address(name, number)) return address;
  const auto found = known.find(name);
  if (found == known.end()) return std::nullopt;
  return found->second.with_port(number);
}

}  // namespace

MasterProbe::MasterProbe(const EventLoop& loop,
                         std::function<void(const std::string&)> on_unreachable)
    : loop_(loop),
      on_unreachable_(std::move(on_unreachable)),
      timer_(loop, [this] { end("no answer"); }) {}

void MasterProbe::start(const LaunchMessage& job,
                        const std::map<std::string, common::Address>& known,
                        std::chrono::milliseconds patience) {
  if (job.hosts.size() < 2 || job.ranks.empty()) return;
  const auto name = value_of(job.ranks.front(), "MASTER_ADDR");
  const auto address = address_of(name, value_of(job.ranks.front(), HVD_ENV_PORT), known);
  if (!address) return;
  target_ = name == address->host() ? name : fmt::format("{} ({})", name, address->host());
  auto socket = common::make_tcp_socket(*address);
  if (!socket) return;
  socket_ = std::move(*socket);
  if (const int error = common::connect_tcp(socket_.get(), *address); error != 0)
    return end(std::generic_category().message(error));
  answer_ = FdEvent(loop_, socket_.get(), FdEvent::writable, [this] { on_answer(); });
  answer_.enable();
  timer_.start(patience);
}

void MasterProbe::on_answer() {
  const int error = common::connect_error(socket_.get());
  end(error == 0 || error == ECONNREFUSED ? std::string() : std::generic_category().message(error));
}

void MasterProbe::end(const std::string& why) {
  timer_.cancel();
  answer_.reset();
  socket_ = {};
  if (why.empty()) return;
  on_unreachable_(fmt::format(
      "{} cannot connect to {}, which is MASTER_ADDR: {}; programs that meet there wait for ever. "
      "Is there a firewall, or an address that this host cannot reach? --network-interface chooses "
      "another network, -x MASTER_ADDR=ADDRESS another address",
      local_host_name(), target_, why));
}

}  // namespace hvdrun
