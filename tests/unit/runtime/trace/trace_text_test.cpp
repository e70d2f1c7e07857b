// The JSON text of recordings that are made by hand.
#include "trace/trace_text.hpp"

#include "support.hpp"
#include "trace_file.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

constexpr std::uint64_t kStart = 1'000'000;  // by the clock of rank 1, which is 500 ns ahead

// Returns which of two ranks arrived last in each call. `own` is of rank 1.
LastArrivals last_arrivals(const std::vector<Arrival>& own, const std::vector<Arrival>& other) {
  LastArrivals known;
  run_ranks(2, [&](Communicator& communicator) {
    const auto last = LastArrivals::among(communicator, communicator.rank() == 1 ? own : other);
    ASSERT_TRUE(last.ok()) << last.error().message;
    if (communicator.rank() == 1) known = *last;
  });
  return known;
}

RankView view_of_rank_1() {
  RankView view;
  view.rank = 1;
  view.host = "n2";
  view.started_ns = kStart;
  view.clock = ClockMap({.at_ns = 0, .offset = {.ns = -500, .error_ns = 40}});
  view.origin_ns = kStart - 500;
  return view;
}

Recording recording_of(std::vector<Event> events) {
  Recording recording;
  recording.tracks.push_back({.number = 0,
                              .title = "program",
                              .events = std::move(events),
                              .names = {"", "grad", "load \"data\"", "b"},
                              .labels = {"", "allreduce"}});
  return recording;
}

Event call(std::uint32_t sequence, std::uint64_t begin, std::uint64_t end) {
  return {.begin_ns = kStart + begin,
          .duration_ns = end - begin,
          .bytes = 4'096,
          .name = 1,
          .sequence = sequence,
          .label = 1,
          .kind = EventKind::call,
          .type = HVD_FLOAT32,
          .op = HVD_SUM};
}

std::vector<Json> shown(Recording recording, LastArrivals last = {}) {
  TraceText text(std::move(recording), view_of_rank_1(), std::move(last));
  const auto all = [&] {
    std::string json;
    for (std::string piece = text.next(); !piece.empty(); piece = text.next()) json += piece;
    return json;
  };
  const std::string json = all();
  text.rewind();
  EXPECT_EQ(all(), json);
  return parse_trace(trace_head(2, 40) + json.substr(1) + trace_tail(), "the text");
}

TEST(TraceText, NamesTheRankAndItsRows) {
  Recording recording = recording_of({call(1, 0, 10)});
  recording.dropped = 12;
  const auto events = shown(std::move(recording));
  EXPECT_EQ(find_event(events, "process_name")["args"]["name"], "rank 1 (n2)");
  EXPECT_EQ(find_event(events, "process_sort_index")["args"]["sort_index"], 1);
  EXPECT_EQ(find_event(events, "process_labels")["args"]["labels"], "12 events dropped");
  EXPECT_EQ(find_event(events, "thread_name")["args"]["name"], "program");
}

TEST(TraceText, ACollectiveHasAllItsArguments) {
  Event failed = call(2, 200'000, 300'000);
  failed.failed = true;
  failed.stream = call_stream(4);
  const auto events = shown(recording_of({call(1, 2'000, 12'345), failed}));
  const auto calls = events_of(events, "collective");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["name"], "allreduce grad");
  EXPECT_EQ(calls[0]["pid"], 1);
  EXPECT_DOUBLE_EQ(begin_of(calls[0]), 2.0);
  EXPECT_DOUBLE_EQ(calls[0]["dur"].get<double>(), 10.345);
  EXPECT_EQ(calls[0]["args"], (Json{{"number", 1},
                                    {"bytes", 4'096},
                                    {"type", "float32"},
                                    {"op", "sum"},
                                    {"tensor", "grad"}}));
  EXPECT_EQ(calls[1]["args"]["failed"], true);
  EXPECT_EQ(calls[1]["args"]["process set"], 4);
  EXPECT_TRUE(events_of(events, "wait").empty());
}

TEST(TraceText, ACollectiveIsDividedAtTheLastArrival) {
  // The other rank arrives 30 us after this one, then 1 us after the end, then before this one.
  const std::vector<Event> calls{call(1, 0, 50'000), call(2, 100'000, 150'000),
                                 call(3, 200'000, 250'000)};
  const auto last = last_arrivals({{0, 1, 0}, {0, 2, 100'000}, {0, 3, 200'000}},
                                  {{0, 1, 30'000}, {0, 2, 151'000}, {0, 3, 190'000}});
  const auto events = shown(recording_of(calls), last);
  const auto waits = events_of(events, "wait");
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0]["name"], "wait for rank 0");
  EXPECT_DOUBLE_EQ(end_of(waits[0]), 30.0);
  EXPECT_DOUBLE_EQ(end_of(waits[1]), 150.0);
  const auto operations = events_of(events, "operation");
  ASSERT_EQ(operations.size(), 1u);
  EXPECT_DOUBLE_EQ(begin_of(operations[0]), 30.0);
  EXPECT_DOUBLE_EQ(end_of(operations[0]), 50.0);
  const auto all = events_of(events, "collective");
  EXPECT_EQ(all[0]["args"]["last"], "rank 0");
  EXPECT_DOUBLE_EQ(all[0]["args"]["waited_us"].get<double>(), 30.0);
  EXPECT_EQ(all[2]["args"]["last"], "rank 1");
  EXPECT_EQ(all[2]["args"]["waited_us"], 0);
}

// A collective that has spans of the program inside is not divided, so that events stay nested.
TEST(TraceText, ACollectiveWithSpansInsideIsNotDivided) {
  const Event inside{.begin_ns = kStart + 10'000, .duration_ns = 30'000, .name = 2};
  const Event around{.begin_ns = kStart, .duration_ns = 50'000, .name = 3};
  const auto last = last_arrivals({{0, 1, 0}}, {{0, 1, 20'000}});
  const auto events = shown(recording_of({inside, call(1, 0, 50'000), around}), last);
  EXPECT_TRUE(events_of(events, "wait").empty());
  ASSERT_FALSE(find_event(events, "load \"data\"").is_null());
  // Of two events at the same time, the one that was recorded later encloses the other.
  EXPECT_EQ(events_of(events, "program").front()["name"], "b");
}

TEST(TraceText, ShowsMarksAndUnfinishedSpans) {
  Event open{.begin_ns = kStart, .duration_ns = 5, .name = 3};
  open.cut = true;
  const auto events =
      shown(recording_of({{.begin_ns = kStart + 1, .bytes = 17, .kind = EventKind::step},
                          {.begin_ns = kStart + 2, .bytes = 2, .kind = EventKind::epoch},
                          open}));
  EXPECT_EQ(find_event(events, "step 17")["ph"], "i");
  EXPECT_EQ(find_event(events, "epoch 2")["ph"], "i");
  EXPECT_EQ(find_event(events, "b")["args"]["unfinished"], true);
}

TEST(TraceText, OmitsEventsFromBeforeTheStart) {
  Event late = call(1, 0, 10);
  late.begin_ns = kStart - 1;
  EXPECT_TRUE(events_of(shown(recording_of({late})), "collective").empty());
}

TEST(TraceText, FusedOperationsNameTheirTensors) {
  Recording recording = recording_of({});
  recording.tracks[0].title = "engine";
  auto& events = recording.tracks[0].events;
  constexpr std::uint32_t kCount = 70;
  for (std::uint32_t i = 1; i <= kCount; ++i) {
    recording.tracks[0].names.push_back("t" + std::to_string(i));
    events.push_back({.begin_ns = kStart + i,
                      .duration_ns = 1'000,
                      .name = i + 3,
                      .sequence = i,
                      .stream = engine_stream(0),
                      .label = 1,
                      .kind = EventKind::negotiation});
  }
  Event fused{.begin_ns = kStart + 2'000,
              .duration_ns = 500,
              .bytes = 280,
              .name = kCount,
              .sequence = 1,
              .stream = engine_stream(0),
              .label = 1,
              .kind = EventKind::operation,
              .type = HVD_FLOAT32,
              .op = HVD_SUM};
  fused.fused = true;
  events.push_back(fused);
  std::vector<Arrival> own, other;
  for (std::uint32_t i = 1; i <= kCount; ++i) {
    own.push_back({engine_stream(0), i, 0});
    other.push_back({engine_stream(0), i, i == 40 ? 900 : -1});
  }
  const auto seen = shown(std::move(recording), last_arrivals(own, other));
  const Json operation = find_event(seen, "allreduce, 70 fused");
  ASSERT_FALSE(operation.is_null());
  ASSERT_EQ(operation["args"]["tensors"].size(), 64u);
  EXPECT_EQ(operation["args"]["tensors"][0], "t1");
  EXPECT_EQ(operation["args"]["more"], 6);
  EXPECT_EQ(operation["args"]["last"], "rank 0");
  // All of them were negotiated at the same time.
  const auto negotiations = events_of(seen, "negotiation");
  ASSERT_EQ(negotiations.size(), kCount);
  const Json one = find_event(seen, "allreduce t40");
  EXPECT_EQ(one["args"]["last"], "rank 0");
  EXPECT_NEAR(one["args"]["waited_us"].get<double>(), 0.86, 0.001);
}

TEST(TraceRows, OverlappingNegotiationsHaveSeparateRows) {
  Recording recording = recording_of({});
  const auto negotiation = [](std::uint64_t begin, std::uint64_t end) {
    return Event{
        .begin_ns = kStart + begin, .duration_ns = end - begin, .kind = EventKind::negotiation};
  };
  recording.tracks[0].events = {negotiation(0, 10), negotiation(5, 15), negotiation(10, 20),
                                negotiation(12, 14), negotiation(20, 30)};
  TraceProgress progress;
  const auto rows = arrange_rows(recording, kStart, progress);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].events.size(), 3u);
  EXPECT_EQ(rows[1].events.size(), 1u);
  EXPECT_NE(rows[0].number, rows[1].number);
  Recording many = recording_of({});
  for (int i = 0; i < 1'000; ++i) many.tracks[0].events.push_back(negotiation(0, 10));
  TraceProgress of_many;
  EXPECT_EQ(arrange_rows(many, kStart, of_many).size(), kMostNegotiationRows);
}

}  // namespace
}  // namespace libhvd::test
