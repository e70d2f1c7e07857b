#include "agent/meeting_watch.hpp"

#include "base/system.hpp"
#include "common/system.hpp"

#include <utility>

namespace hvdrun {

MeetingWatch::MeetingWatch(const EventLoop& loop, const RankProcesses& ranks, Events events)
    : warn_(std::move(events.warn)),
      connections_(loop, {std::move(events.joined), std::move(events.on_apart)}),
      nested_(loop, ranks,
              [this](const std::string& text) { warn_(local_host_name() + ": " + text); }),
      master_(loop, [this](const std::string& text) { warn_(text); }) {}

void MeetingWatch::begin(const LaunchMessage& job, const std::vector<HeldPort>& held,
                         const std::map<std::string, common::Address>& known) {
  connections_.start(job, held);
  if (const auto warning = taken_port_warning(job, held); !warning.empty()) warn_(warning);
  master_.start(job, known);
}

void MeetingWatch::finish() {
  nested_.stop();
  connections_.finish();
}

}  // namespace hvdrun
