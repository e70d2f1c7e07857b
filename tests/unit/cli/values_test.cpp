#include "cli/values.hpp"

#include <climits>
#include <csignal>

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(ParseWhole, AcceptsWholeNumbersFromTheMinimum) {
  EXPECT_EQ(parse_whole("1", 1).value(), 1);
  EXPECT_EQ(parse_whole("0", 0).value(), 0);
  EXPECT_EQ(parse_whole("10000000", 1).value(), 10000000);
  EXPECT_EQ(parse_whole("2147483647", 1).value(), INT_MAX);
}

TEST(ParseWhole, ErrorNamesTheMinimum) {
  for (const auto* text : {"0", "-1", "abc", "", " 4", "4 ", "4.0", "1e3", "0x4", "+4", "4\n"}) {
    const auto number = parse_whole(text, 1);
    ASSERT_FALSE(number) << text;
    EXPECT_THAT(number.error().message, HasSubstr("needs a whole number of 1 or more, not "));
    EXPECT_EQ(number.error().exit_code, kExitUsage);
  }
  EXPECT_EQ(parse_whole("4\n5", 1).error().message,
            "needs a whole number of 1 or more, not \"4\\n5\"");
}

TEST(ParseWhole, RefusesNumbersBeyondInt) {
  for (const auto* text : {"2147483648", "99999999999999999999999999", "-99999999999999999999999"})
    EXPECT_THAT(parse_whole(text, 1).error().message, HasSubstr("out of range")) << text;
}

TEST(ParseMetrics, AcceptsAFileOrAPort) {
  EXPECT_EQ(parse_metrics(":9400")->port, 9400);
  EXPECT_EQ(parse_metrics(":0")->port, 0);
  EXPECT_EQ(parse_metrics("/var/lib/x/train.prom")->file, "/var/lib/x/train.prom");
  EXPECT_EQ(parse_metrics("/data/a:1")->file, "/data/a:1");
  EXPECT_FALSE(parse_metrics("/data/a:1")->port);
}

TEST(ParseMetrics, RefusesWhatIsMeantForAnAddress) {
  for (const auto* text : {"9400", "0.0.0.0:9400", "localhost:9400", "", ":", ":x", ":65536"})
    EXPECT_FALSE(parse_metrics(text)) << text;
  EXPECT_THAT(parse_metrics("n1:9400").error().message, HasSubstr("127.0.0.1 only"));
}

TEST(ParseDuration, AcceptsSecondsAndUnits) {
  const std::pair<const char*, int> cases[] = {
      {"0", 0},       {"5", 5000},    {"0.5", 500},   {".5", 500},  {"30s", 30000},
      {"1.5s", 1500}, {"500ms", 500}, {"2m", 120000}, {"0.3", 300}, {"0.007", 7},
      {"0.0001", 1},  {"0ms", 0},     {"1e-9", -1},
  };
  for (const auto& [text, expected] : cases) {
    const auto duration = parse_duration(text);
    if (expected < 0) {
      EXPECT_FALSE(duration) << text;
    } else {
      ASSERT_TRUE(duration) << text;
      EXPECT_EQ(duration->count(), expected) << text;
    }
  }
}

TEST(ParseDuration, RefusesInvalidDurations) {
  for (const auto* text :
       {"", "-1", "-0", "abc", "5 s", "5h", "inf", "nan", "s", "1,5", "5s5", "m"})
    EXPECT_FALSE(parse_duration(text)) << text;
  EXPECT_THAT(parse_duration("1000000000000").error().message, HasSubstr("as long as"));
}

TEST(ParseTimeLimit, MustBeMoreThanZero) {
  EXPECT_EQ(parse_time_limit("0.5").value(), milliseconds(500));
  EXPECT_EQ(parse_time_limit("0").error().message, "needs a time of more than 0, not \"0\"");
}

TEST(ParseMegabytes, ConvertsToBytes) {
  EXPECT_EQ(parse_megabytes("64").value(), 64 << 20);
  EXPECT_EQ(parse_megabytes("0.0625").value(), 65536);
  EXPECT_EQ(parse_megabytes("0").value(), 0);
}

TEST(ParseMegabytes, RefusesInvalidNumbers) {
  for (const auto* text : {"", "-1", "64MB", "1e3", "nan", "much"})
    EXPECT_EQ(parse_megabytes(text).error().message,
              "needs a number of megabytes such as 64 or 0.5, not \"" + std::string(text) + "\"");
  EXPECT_EQ(parse_megabytes("1048577").error().message, "cannot be as much as \"1048577\"");
}

TEST(ParseSignal, AcceptsNamesAndNumbers) {
  EXPECT_EQ(parse_signal("TERM").value(), SIGTERM);
  EXPECT_EQ(parse_signal("SIGINT").value(), SIGINT);
  EXPECT_EQ(parse_signal("sigusr1").value(), SIGUSR1);
  EXPECT_EQ(parse_signal("9").value(), SIGKILL);
}

TEST(ParseSignal, RefusesInvalidSignals) {
  for (const auto* text : {"", "0", "-9", "65", "FOO", "SIG", "TERMINATE"})
    EXPECT_THAT(parse_signal(text).error().message,
                HasSubstr("needs a signal such as TERM, INT, USR1 or 15"))
        << text;
}

TEST(ParseHosts, AcceptsNamesSlotsAndAddresses) {
  const auto hosts = parse_hosts("localhost:4,n1,10.0.0.7:2,[::1]:8,[fe80::1%eth0]").value();
  ASSERT_EQ(hosts.size(), 5u);
  EXPECT_EQ(hosts[0].name, "localhost");
  EXPECT_EQ(hosts[0].slots, 4);
  EXPECT_EQ(hosts[1].name, "n1");
  EXPECT_EQ(hosts[1].slots, std::nullopt);
  EXPECT_EQ(hosts[2].name, "10.0.0.7");
  EXPECT_EQ(hosts[3].name, "::1");
  EXPECT_EQ(hosts[3].slots, 8);
  EXPECT_EQ(hosts[4].name, "fe80::1%eth0");
}

TEST(ParseHosts, RefusesInvalidHosts) {
  for (const auto* text : {"", ",", "a,", "a:", "a:0", "a:-1", "a:b", "a b", "a:1:2", "[::1",
                           "[]:1", "[::1]4", "-oProxyCommand=x", "a\nb:1", "a;b", ":4"}) {
    const auto hosts = parse_hosts(text);
    ASSERT_FALSE(hosts) << text;
    EXPECT_EQ(hosts.error().message.find('\n'), std::string::npos);
  }
}

TEST(ParseHosts, AcceptsRangesAndUsers) {
  const auto hosts = parse_hosts("bob@n[01-02,7]:4,eve@[::1]").value();
  ASSERT_EQ(hosts.size(), 4u);
  EXPECT_EQ(hosts[1].name, "n02");
  EXPECT_EQ(hosts[2].name, "n7");
  EXPECT_EQ(hosts[2].slots, 4);
  EXPECT_EQ(hosts[2].user, "bob");
  EXPECT_EQ(hosts[2].source, "-H");
  EXPECT_EQ(hosts[3].user, "eve");
}

TEST(ParseHosts, ErrorsExplainInvalidHosts) {
  EXPECT_EQ(parse_hosts("n[1-1000000]").error().message,
            "is not valid: \"n[1-1000000]\" names more than 65536 hosts, the most that hvdrun "
            "takes");
  EXPECT_THAT(parse_hosts("n[1-40000],m[1-40000]").error().message, HasSubstr("names more than"));
  EXPECT_THAT(parse_hosts("a:0").error().message,
              HasSubstr("\"a:0\" needs a whole number of slots after the \":\", 1 or more"));
  EXPECT_THAT(parse_hosts("::1").error().message, HasSubstr("in brackets: [::1]:4"));
  for (const auto* text : {"[-oProxy::]:1", "-l@n1", "@n1", "a@b@c"})
    EXPECT_FALSE(parse_hosts(text)) << text;
}

TEST(ParseHostNames, AcceptsOnlyNames) {
  EXPECT_THAT(parse_host_names("n[1-2],[::1],x").value(),
              testing::ElementsAre("n1", "n2", "::1", "x"));
  for (const auto* text : {"n1:4", "bob@n1"})
    EXPECT_THAT(parse_host_names(text).error().message, HasSubstr("takes names of hosts only"))
        << text;
  EXPECT_FALSE(parse_host_names(""));
}

TEST(ParseEnvironmentChange, AcceptsNamesWithAnyValue) {
  EXPECT_EQ(parse_environment_change("A").value().value, std::nullopt);
  EXPECT_EQ(parse_environment_change("A=").value().value, "");
  EXPECT_EQ(parse_environment_change("A=b=c\nd").value().value, "b=c\nd");
  EXPECT_EQ(parse_environment_change("A=b").value().name, "A");
  const std::string large(1 << 17, 'v');
  EXPECT_EQ(parse_environment_change("A=" + large).value().value, large);
}

TEST(ParseEnvironmentChange, RefusesInvalidNames) {
  for (const auto* text : {"", "=v", "A B=c", "A\nB=c", "\t"})
    EXPECT_THAT(parse_environment_change(text).error().message,
                HasSubstr("needs NAME or NAME=VALUE, not "))
        << text;
}

TEST(ParseLabel, AcceptsWordsAndTemplates) {
  for (const auto* text : {"none", "rank", "rank@host", "[{rank}] ", "{host}:{rank}"})
    EXPECT_EQ(parse_label(text).value(), text);
}

TEST(ParseLabel, RefusesUnknownWords) {
  EXPECT_EQ(parse_label("ranks").error().message,
            "must be none, rank, rank@host or a template such as \"[{rank}] \", not \"ranks\"");
}

TEST(ParseInput, AcceptsNoneAllAndARank) {
  EXPECT_EQ(parse_input("none").value().to, InputSpec::To::none);
  EXPECT_EQ(parse_input("all").value().to, InputSpec::To::all);
  EXPECT_EQ(parse_input("5").value().rank, 5);
  EXPECT_EQ(parse_input("last").value().rank, -1);
  EXPECT_EQ(parse_input("-1").value().rank, -1);
  EXPECT_EQ(parse_input("x").error().message, "must be none, all, last or a rank, not \"x\"");
  EXPECT_EQ(parse_one_rank("last").value(), -1);
  EXPECT_EQ(parse_one_rank("x").error().message, "needs a rank such as 3, or last, not \"x\"");
  EXPECT_EQ(parse_wrap("last:gdb --args")->ranks->to_string(), "last");
  EXPECT_EQ(parse_wrap("last:gdb --args")->command, "gdb --args");
  EXPECT_FALSE(parse_wrap("gdb --eval a:b")->ranks);
}

TEST(ParseChoice, ListsTheChoices) {
  const auto choice = parse_choice<int>("x", {{"a", 1}, {"b", 2}, {"c", 3}});
  EXPECT_EQ(choice.error().message, "must be a, b or c, not \"x\"");
}

}  // namespace
}  // namespace hvdrun::cli
