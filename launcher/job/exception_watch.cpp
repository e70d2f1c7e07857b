#include "job/exception_watch.hpp"

#include "common/text.hpp"
#include "model/traceback.hpp"
#include "report/failures.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// A rank that has printed an exception ends within this time, or prints something else.
constexpr std::chrono::seconds kInterval{10};

}  // namespace

ExceptionWatch::ExceptionWatch(const EventLoop& loop, const RankTable& table, LastLines last_stderr,
                               std::function<void(const std::string&)> warn)
    : table_(table),
      last_stderr_(std::move(last_stderr)),
      warn_(std::move(warn)),
      timer_(loop, [this] { look(); }) {}

void ExceptionWatch::on_output(int rank, Stream stream) {
  if (stream == Stream::out && suspects_.empty()) return;
  recent_.insert(rank);
  if (!timer_.pending()) timer_.start(kInterval);
}

void ExceptionWatch::look() {
  const auto recent = std::exchange(recent_, {});
  const auto suspects = std::exchange(suspects_, {});
  std::vector<int> silent;
  for (const int rank : table_.running()) {
    if (named_.contains(rank)) continue;
    if (recent.contains(rank) && !exception_at_end(last_stderr_(rank)).empty())
      suspects_.insert(rank);
    else if (suspects.contains(rank) && !recent.contains(rank))
      silent.push_back(rank);
  }
  if (!suspects_.empty()) timer_.start(kInterval);
  if (silent.empty()) return;
  named_.insert(silent.begin(), silent.end());
  const bool is_one = silent.size() == 1;
  warn_(fmt::format("{} {} printed an exception, and {} not ended since: {}; {}",
                    describe_ranks(silent), is_one ? "has" : "have", is_one ? "has" : "have",
                    clipped(exception_at_end(last_stderr_(silent.front()))), kMpi4pyAdvice));
}

}  // namespace hvdrun
