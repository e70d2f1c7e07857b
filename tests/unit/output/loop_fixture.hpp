// A fixture with an Output on an event loop that the test runs.
#pragma once

#include "fixtures.hpp"
#include "output/output.hpp"

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <event2/event.h>

namespace hvdrun {

class OutputTest : public testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

  void open(Output::Descriptors to, OutputSpec spec = {}, int ranks = 2) {
    Output::Events events;
    events.on_relief = [this] { ++reliefs_; };
    events.on_error = [this](const Error& error, bool stop) { errors_.emplace_back(error, stop); };
    auto made = Output::open(loop_.get(), spec, std::move(events), to);
    ASSERT_TRUE(made) << made.error().message;
    output_ = std::move(*made);
    ASSERT_TRUE(output_->begin(placement_of(ranks)));
  }
  void write(int rank, std::string_view bytes, Stream stream = Stream::out) {
    output_->write(rank, stream, bytes, {});
  }

  // Runs one turn of the loop without waiting.
  void turn() { event_base_loop(loop_.get(), EVLOOP_NONBLOCK); }

  // Runs the loop until `done` returns true. ctest's time limit ends a test that hangs.
  void run_until(const std::function<bool()>& done) {
    while (!done())
      ASSERT_EQ(event_base_loop(loop_.get(), EVLOOP_ONCE), 0) << "nothing to wait for";
  }

  std::unique_ptr<event_base, void (*)(event_base*)> loop_{event_base_new(), event_base_free};
  std::unique_ptr<Output> output_;
  int reliefs_ = 0;
  std::vector<std::pair<Error, bool>> errors_;
};

}  // namespace hvdrun
