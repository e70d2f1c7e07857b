#include "job/quiet_watch.hpp"

#include "job/rank_states.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr int kLooksInTime = 10;

}  // namespace

QuietWatch::QuietWatch(AttemptParts& attempt)
    : attempt_(attempt),
      question_(attempt.job.loop),
      timer_(attempt.job.loop, [this] { look(); }) {}

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
  } else if (!question_.is_open()) {
    question_.ask(*attempt_.questions, {.wanted = Wanted::processor_time}, kAnswerTime,
                  [this](const Answers& answers) { judge(answers); });
  }
}

void QuietWatch::end() {
  timer_.cancel();
  question_.drop();
}

void QuietWatch::judge(const Answers& answers) {
  const auto now = attempt_.job.loop.now();
  time_.add(now, states_in(answers, attempt_.table));
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
