#include "job/quiet_watch.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr int kLooksInTime = 10;

}  // namespace

QuietWatch::QuietWatch(AttemptParts& attempt)
    : attempt_(attempt), timer_(attempt.job.loop, [this] { look(); }) {}

milliseconds QuietWatch::interval() const {
  return std::clamp(*attempt_.job.spec.stop.quiet_timeout / kLooksInTime, milliseconds(100),
                    milliseconds(10'000));
}

void QuietWatch::begin() {
  if (!attempt_.job.spec.stop.quiet_timeout) return;
  begin_anew();
  timer_.start(interval());
}

void QuietWatch::begin_anew() {
  time_.begin(attempt_.job.loop.now(), *attempt_.job.spec.stop.quiet_timeout);
}

void QuietWatch::look() {
  timer_.start(interval());
  if (std::exchange(has_printed_, false)) {
    begin_anew();
  } else if (!answers_.awaited()) {
    answers_.expect(attempt_.agents->hosts_in_use());
    attempt_.agents->ask_for_states(StatesPurpose::quiet);
  }
}

void QuietWatch::take(std::size_t host, const StatesMessage& message) {
  judge(answers_.add(host, message, attempt_.table.ranks().size()));
}

void QuietWatch::lose(std::size_t host) {
  judge(answers_.lose(host));
}

void QuietWatch::judge(const StateAnswers::Answer& states) {
  if (!states || !timer_.pending()) return;
  const auto now = attempt_.job.loop.now();
  time_.add(now, *states);
  const auto timeout = *attempt_.job.spec.stop.quiet_timeout;
  if (now - time_.since() < timeout) return;
  end();
  attempt_.stop({EndKind::quiet_timeout,
                 fmt::format("no output, no collective and no processor time for {} "
                             "(--quiet-timeout)",
                             seconds_text(timeout)),
                 kExitTimeout});
}

}  // namespace hvdrun
