// The recorder keeps the events of threads, returns them once, and reports how many it has dropped.
#include "trace/recorder.hpp"

#include "trace/call_trace.hpp"
#include "trace/rows.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

const TrackRecording& track_called(const Recording& recording, const std::string& title) {
  static const TrackRecording none;
  for (const TrackRecording& track : recording.tracks) {
    if (track.title == title) return track;
  }
  ADD_FAILURE() << "no track " << title;
  return none;
}

std::vector<std::string> names_in(const TrackRecording& track) {
  std::vector<std::string> names;
  for (const Event& event : track.events) names.push_back(track.names[event.name]);
  return names;
}

std::size_t count_events(const Recording& recording) {
  std::size_t count = 0;
  for (const TrackRecording& track : recording.tracks) count += track.events.size();
  return count;
}

TEST(Recorder, KeepsTheEventsBetweenStartAndStop) {
  Recorder recorder;
  recorder.begin_span("before");
  recorder.start();
  recorder.end_span();  // of "before": unknown
  recorder.begin_span("outer");
  recorder.begin_span("inner");
  recorder.end_span();
  recorder.mark(EventKind::step, 7);
  recorder.end_span();
  recorder.begin_span("open");
  recorder.stop();
  recorder.end_span();
  recorder.mark(EventKind::step, 8);
  const Recording recording = recorder.take();
  const TrackRecording& program = track_called(recording, "program");
  EXPECT_EQ(names_in(program), (std::vector<std::string>{"inner", "", "outer", "open"}));
  EXPECT_EQ(program.events[1].bytes, 7u);
  EXPECT_FALSE(program.events[2].cut);
  EXPECT_TRUE(program.events[3].cut);
  EXPECT_LE(program.events[2].begin_ns, program.events[0].begin_ns);
  EXPECT_GE(program.events[2].end_ns(), program.events[0].end_ns());
  EXPECT_EQ(recording.dropped, 0u);
}

TEST(Recorder, RestartForgetsOpenSpans) {
  Recorder recorder;
  recorder.start();
  recorder.begin_span("first");
  recorder.end_span();
  recorder.begin_span("left open");
  recorder.stop();
  recorder.start();
  recorder.end_span();
  recorder.begin_span("second");
  recorder.end_span();
  recorder.stop();
  EXPECT_EQ(names_in(track_called(recorder.take(), "program")), std::vector<std::string>{"second"});
  EXPECT_EQ(count_events(recorder.take()), 0u);
}

TEST(Recorder, ReportsHowManyEventsItHasDropped) {
  Recorder recorder;
  recorder.start(1'000 * sizeof(Event));
  for (int i = 0; i < 5'000; ++i) recorder.mark(EventKind::step, static_cast<std::uint64_t>(i));
  recorder.stop();
  const Recording recording = recorder.take();
  ASSERT_EQ(count_events(recording), 1'000u);
  EXPECT_EQ(recording.dropped, 4'000u);
  EXPECT_EQ(track_called(recording, "program").events.back().bytes, 999u);
}

TEST(Recorder, NamesUseRoomToo) {
  Recorder recorder;
  recorder.start(64 * 1024);
  CallTrace calls(recorder);
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = std::to_string(i) + std::string(10'000, 'x');
    calls.end(calls.begin(), "allreduce", name.c_str(), {}, true);
  }
  recorder.stop();
  const Recording recording = recorder.take();
  const TrackRecording& program = track_called(recording, "program");
  EXPECT_GT(recording.dropped, 0u);
  std::size_t bytes = program.events.size() * sizeof(Event);
  for (const std::string& name : program.names) bytes += name.size();
  EXPECT_LE(bytes, 64u * 1024);
  EXPECT_EQ(program.names[1].size(), Names::kLongest);
}

TEST(Recorder, IgnoresSpansThatAreNestedTooDeep) {
  Recorder recorder;
  recorder.start();
  constexpr int kDepth = 100'000;
  for (int i = 0; i < kDepth; ++i) recorder.begin_span("deeper");
  for (int i = 0; i < kDepth; ++i) recorder.end_span();
  recorder.begin_span("after");
  recorder.end_span();
  recorder.stop();
  const auto names = names_in(track_called(recorder.take(), "program"));
  EXPECT_LT(names.size(), 1'000u);
  EXPECT_EQ(names.back(), "after");
}

TEST(Recorder, LaterThreadsReuseTheTracksOfEndedThreads) {
  Recorder recorder;
  recorder.start();
  for (int round = 0; round < 3; ++round) {
    std::latch all_here(4);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        recorder.begin_span("together");
        all_here.arrive_and_wait();
        recorder.end_span();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  recorder.stop();
  const Recording recording = recorder.take();
  EXPECT_EQ(recording.tracks.size(),
            2u + 4u);  // the engine's, the program's and one for each of four threads
  EXPECT_EQ(count_events(recording), 12u);
}

TEST(Recorder, AThreadMayUseSeveralRecorders) {
  Recorder one;
  Recorder other;
  one.start();
  other.start();
  for (int i = 0; i < 3; ++i) {
    one.mark(EventKind::step, 1);
    other.mark(EventKind::step, 2);
  }
  one.stop();
  other.stop();
  for (Recorder* recorder : {&one, &other}) {
    const Recording recording = recorder->take();
    EXPECT_EQ(recording.tracks.size(), 2u);
    EXPECT_EQ(count_events(recording), 3u);
  }
}

// For ThreadSanitizer. The names of all recorded events must be known.
TEST(Recorder, ThreadsRecordWhileItStartsAndStops) {
  Recorder recorder;
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&recorder, &over, i] {
      std::vector<std::string> names;
      for (int name = 0; name < 50; ++name) names.push_back(std::to_string(i * 1'000 + name));
      for (std::size_t n = 0; !over.load(); ++n) {
        recorder.begin_span(names[n % names.size()]);
        recorder.end_span();
      }
    });
  }
  std::size_t seen = 0;
  for (int round = 0; round < 50 || seen == 0; ++round) {
    recorder.start(10'000 * sizeof(Event));
    while (recorder.room().dropped() == 0 && round == 0) std::this_thread::yield();
    recorder.stop();
    const Recording recording = recorder.take();
    seen += count_events(recording);
    for (const TrackRecording& track : recording.tracks) {
      for (const Event& event : track.events) ASSERT_LT(event.name, track.names.size());
    }
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(seen, 5'000u);
}

TEST(CallTrace, NumbersAllCallsRecordedOrNot) {
  Recorder recorder;
  CallTrace calls(recorder, 3);
  EngineTrace engine(std::shared_ptr<Recorder>(&recorder, [](Recorder*) {}), 3);
  const CallFacts facts{.bytes = 8, .type = HVD_FLOAT64, .op = HVD_SUM};
  const auto one_of_each = [&] {
    calls.end(calls.begin(), "allreduce", nullptr, facts, true);
    for (const char* name : {"a", "b", "c"})
      engine.negotiated("allreduce", name, engine.submission_ns());
    engine.executed_fused(engine.begin(), "allreduce", 2, facts, true);
    engine.executed(engine.begin(), "allreduce", "c", facts, false);
  };
  one_of_each();
  recorder.start();
  one_of_each();
  recorder.stop();
  one_of_each();
  const Recording recording = recorder.take();
  const TrackRecording& program = track_called(recording, "program");
  ASSERT_EQ(program.events.size(), 1u);
  EXPECT_EQ(program.events[0].sequence, 2u);
  EXPECT_EQ(program.events[0].stream, call_stream(3));
  EXPECT_EQ(program.events[0].bytes, 8u);
  const TrackRecording& track = track_called(recording, "engine, process set 3");
  ASSERT_EQ(track.events.size(), 5u);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(track.events[i].sequence, 4 + i);
  EXPECT_TRUE(track.events[3].fused);
  EXPECT_EQ(track.events[3].sequence, 4u);
  EXPECT_FALSE(track.events[4].fused);
  EXPECT_EQ(track.events[4].sequence, 6u);
  EXPECT_TRUE(track.events[4].failed);
  EXPECT_EQ(track.events[4].stream, engine_stream(3));
  const NegotiatedNames names(recording);
  EXPECT_EQ(names.find(engine_stream(3), 5), "b");
  EXPECT_EQ(names.find(engine_stream(3), 7), "");
  EXPECT_EQ(names.find(engine_stream(0), 5), "");
}

TEST(EngineTrace, TrackOfAProcessSetLastsUntilItIsTaken) {
  const auto recorder = std::make_shared<Recorder>();
  recorder->start();
  {
    EngineTrace engine(recorder, 2);
    engine.negotiated("barrier", "b", engine.submission_ns());
    engine.executed(engine.begin(), "barrier", "b", {}, true);
  }
  EXPECT_EQ(track_called(recorder->take(), "engine, process set 2").events.size(), 2u);
  EXPECT_EQ(recorder->take().tracks.size(), 2u);  // the program's and the engine's
}

}  // namespace
}  // namespace libhvd
