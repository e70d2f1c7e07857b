#include "trace_file.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

constexpr double kRounding = 1e-3;  // microseconds; times have three decimals

// Checks the fields that Google's "Trace Event Format" requires of each kind of event.
void check_event(const Json& event) {
  const std::string phase = event.at("ph");
  EXPECT_TRUE(event.at("pid").is_number_integer()) << event;
  EXPECT_TRUE(event.at("tid").is_number_integer()) << event;
  EXPECT_TRUE(event.at("name").is_string()) << event;
  if (phase == "M") {
    EXPECT_EQ(event.at("args").size(), 1u) << event;
    return;
  }
  EXPECT_TRUE(event.at("cat").is_string()) << event;
  EXPECT_GE(event.at("ts").get<double>(), 0) << event;
  if (phase == "X") {
    EXPECT_GE(event.at("dur").get<double>(), 0) << event;
  } else {
    EXPECT_EQ(phase, "i") << event;
    EXPECT_EQ(event.at("s"), "p") << event;
  }
}

// Checks that complete events of one thread follow each other or are nested.
void check_nesting(const std::vector<Json>& row) {
  std::vector<const Json*> open;
  double before = 0;
  for (const Json& event : row) {
    EXPECT_GE(begin_of(event), before) << event;
    before = begin_of(event);
    while (!open.empty() && end_of(*open.back()) <= begin_of(event) + kRounding) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(end_of(event), end_of(*open.back()) + kRounding)
          << event << " begins inside, and ends after " << *open.back();
    }
    open.push_back(&event);
  }
}

}  // namespace

std::vector<Json> parse_trace(const std::string& text, const std::string& name) {
  const Json trace = Json::parse(text, nullptr, false);
  if (trace.is_discarded() || !trace.is_object() || !trace.contains("traceEvents")) {
    ADD_FAILURE() << name << " is no timeline: " << text.substr(0, 500);
    return {};
  }
  const auto events = trace.at("traceEvents").get<std::vector<Json>>();
  std::map<std::pair<int, int>, std::vector<Json>> rows;
  std::map<std::pair<int, int>, int> titles;
  for (const Json& event : events) {
    check_event(event);
    const std::pair<int, int> row{event.at("pid"), event.at("tid")};
    if (event.at("ph") == "X") rows[row].push_back(event);
    if (event.at("name") == "thread_name") ++titles[row];
  }
  for (const auto& [row, own] : rows) {
    check_nesting(own);
    EXPECT_EQ(titles[row], 1) << "rank " << row.first << ", row " << row.second;
  }
  return events;
}

std::vector<Json> read_trace(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  if (!file) return {};
  return parse_trace({std::istreambuf_iterator<char>(file), {}}, path);
}

std::vector<Json> events_of(const std::vector<Json>& events, const std::string& category,
                            int rank) {
  std::vector<Json> found;
  std::copy_if(events.begin(), events.end(), std::back_inserter(found), [&](const Json& event) {
    return event.value("cat", "") == category && (rank == -1 || event.at("pid") == rank);
  });
  return found;
}

Json find_event(const std::vector<Json>& events, const std::string& name, int rank) {
  for (const Json& event : events) {
    if (event.at("name") == name && (rank == -1 || event.at("pid") == rank)) return event;
  }
  return nullptr;
}

}  // namespace libhvd::test
