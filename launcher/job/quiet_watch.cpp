#include "job/quiet_watch.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// Threads that libraries keep wake up now and then. A rank that uses less of a processor is quiet.
constexpr double kQuietShare = 0.02;
// The kernel measures in ticks of this many seconds.
constexpr double kTick = 0.01;
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
  quiet_since_ = looked_ = attempt_.job.loop.now();
  use_.reset();
  timer_.start(interval());
}

void QuietWatch::look() {
  timer_.start(interval());
  if (std::exchange(has_printed_, false)) {
    quiet_since_ = attempt_.job.loop.now();
    use_.reset();
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
  Use use;
  for (const auto& state : *states) {
    use.cpu_seconds += state.activity.cpu_seconds;
    use.calls += state.calls + state.step;
  }
  const double seconds = std::chrono::duration<double>(now - looked_).count();
  const double most = static_cast<double>(states->size()) * (kQuietShare * seconds + kTick);
  if (!use_ || use.calls != use_->calls || use.cpu_seconds > use_->cpu_seconds + most)
    quiet_since_ = use_ ? now : std::max(quiet_since_, looked_);
  use_ = use;
  looked_ = now;
  const auto timeout = *attempt_.job.spec.stop.quiet_timeout;
  if (now - quiet_since_ < timeout) return;
  end();
  attempt_.stop({EndKind::quiet_timeout,
                 fmt::format("no output, no collective and no processor time for {} "
                             "(--quiet-timeout)",
                             seconds_text(timeout)),
                 kExitTimeout});
}

}  // namespace hvdrun
