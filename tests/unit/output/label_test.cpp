#include "output/label.hpp"

#include "fixtures.hpp"

#include <cstdlib>
#include <ctime>

namespace hvdrun {
namespace {

std::string label_of(std::string_view text, int rank, const Placement& placement,
                     Labels::Options options = {}, Stream stream = Stream::out,
                     OutputTime time = {}) {
  const auto label = parse_label(text);
  if (!label) return "error: " + label.error().message;
  return std::string(Labels(*label, placement, options).of(rank, stream, time));
}

// Returns a time and sets the time zone of this test to UTC. ctest runs each test in a process of
// its own.
OutputTime utc(std::time_t second, int ms) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  return OutputTime(std::chrono::seconds(second) + std::chrono::milliseconds(ms));
}

TEST(Label, FormatsEachForm) {
  const Placement placement = placement_of(4, 2);
  EXPECT_EQ(label_of("none", 3, placement), "");
  EXPECT_EQ(label_of("rank", 3, placement), "[3] ");
  EXPECT_EQ(label_of("rank@host", 3, placement), "[3@n1] ");
  EXPECT_EQ(
      label_of("{rank}/{size} on {host}:{local_rank} {stream}|", 3, placement, {}, Stream::err),
      "3/4 on n1:1 stderr|");
  EXPECT_EQ(label_of("{{{rank}}} ", 3, placement), "{3} ");
  EXPECT_EQ(label_of("train: ", 3, placement), "train: ");
  EXPECT_EQ(label_of("", 3, placement), "");
}

TEST(Label, BuiltInFormsAlignTheText) {
  EXPECT_EQ(label_of("rank", 3, placement_of(12)), "[3]  ");
  EXPECT_EQ(label_of("rank", 11, placement_of(12)), "[11] ");
  EXPECT_EQ(label_of("rank@host", 0, placement_of(12, 6)), "[0@n0]  ");
  EXPECT_EQ(label_of("{rank}: ", 3, placement_of(12)), "3: ");
}

TEST(Label, OfRanksThatAreStartedLaterAreLikeThoseOfTheStart) {
  Labels::Options options;
  for (const bool timestamps : {false, true}) {
    for (const auto color : {Labels::Color::off, Labels::Color::many}) {
      for (const char* text : {"rank", "rank@host", "{time} {rank}|", "none"}) {
        options.timestamps = timestamps;
        options.color = color;
        const auto label = parse_label(text);
        const Placement whole = placement_of(12);
        Placement first = whole;
        first.size = 11;
        first.hosts[0].ranks.pop_back();
        Labels labels(*label, first, options);
        labels.add(whole.hosts[0].host, whole.hosts[0].ranks.back());
        for (const Stream stream : {Stream::out, Stream::err})
          EXPECT_EQ(labels.of(11, stream, {}), Labels(*label, whole, options).of(11, stream, {}));
      }
    }
  }
}

TEST(Label, DefaultIsTheRankIfThereAreSeveral) {
  EXPECT_EQ(default_label(1), "none");
  EXPECT_EQ(default_label(2), "rank");
}

TEST(Label, MistakesAreUsageErrorsThatNameThem) {
  const std::pair<const char*, const char*> cases[] = {
      {"{rnak} ", "{rnak} is not known"},      {"{} ", "{} is not known"},
      {"{rank ", "a '{' has no '}' after it"}, {"rank} ", "a '}' has no '{' before it"},
      {"a\nb", "a label is one line"},         {"{Rank}", "{Rank} is not known"},
  };
  for (const auto& [text, why] : cases) {
    const auto label = parse_label(text);
    ASSERT_FALSE(label) << text;
    EXPECT_EQ(label.error().exit_code, kExitUsage);
    EXPECT_NE(label.error().message.find(why), std::string::npos) << label.error().message;
  }
}

TEST(Label, TimesAreIsoWithMilliseconds) {
  const Placement placement = placement_of(2);
  const auto time = utc(1'795'222'923, 7);
  EXPECT_EQ(label_of("{time}|{rank} ", 1, placement, {}, Stream::out, time),
            "2026-11-21T01:02:03.007|1 ");
  EXPECT_EQ(label_of("rank", 1, placement, {.timestamps = true}, Stream::out, time),
            "2026-11-21T01:02:03.007 [1] ");
  EXPECT_EQ(label_of("none", 1, placement, {.timestamps = true}, Stream::out, time),
            "2026-11-21T01:02:03.007 ");
  EXPECT_EQ(label_of("{time}{time}", 0, placement, {.timestamps = true}, Stream::out, time),
            "2026-11-21T01:02:03.007 2026-11-21T01:02:03.0072026-11-21T01:02:03.007");
}

TEST(Label, TimesFollowTheClockFromLineToLine) {
  const auto label = parse_label("{time}");
  ASSERT_TRUE(label);
  Labels labels(*label, placement_of(1), {});
  EXPECT_EQ(labels.of(0, Stream::out, utc(59, 999)), "1970-01-01T00:00:59.999");
  EXPECT_EQ(labels.of(0, Stream::out, utc(60, 0)), "1970-01-01T00:01:00.000");
  EXPECT_EQ(labels.of(0, Stream::out, utc(60, 50)), "1970-01-01T00:01:00.050");
  EXPECT_EQ(labels.of(0, Stream::out, utc(59, 1)), "1970-01-01T00:00:59.001");
  EXPECT_EQ(labels.of(0, Stream::out, utc(-1, 999)), "1969-12-31T23:59:59.999");
}

TEST(Label, ColorsOnlyTheLabel) {
  const Placement placement = placement_of(12);
  EXPECT_EQ(label_of("rank", 0, placement, {.color = Labels::Color::few}), "\x1b[36m[0]\x1b[0m  ");
  EXPECT_EQ(label_of("rank", 1, placement, {.timestamps = true, .color = Labels::Color::few},
                     Stream::out, utc(0, 0)),
            "1970-01-01T00:00:00.000 \x1b[35m[1]\x1b[0m  ");
  EXPECT_EQ(label_of("none", 0, placement, {.color = Labels::Color::many}), "");
}

}  // namespace
}  // namespace hvdrun
