// A timeline as a viewer reads it, and what the trace event format asks of it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace libhvd::test {

using Json = nlohmann::json;

// The events of the file, after all of it was checked. A file that is not there, or no timeline, is
// a failure of the test, and has no events.
std::vector<Json> read_trace(const std::string& path);

// The same of a text; `name` is for messages.
std::vector<Json> parse_trace(const std::string& text, const std::string& name);

// Those of a category, of one rank or (-1) all.
std::vector<Json> events_of(const std::vector<Json>& events, const std::string& category,
                            int rank = -1);
// The first with that name; null without one.
Json find_event(const std::vector<Json>& events, const std::string& name, int rank = -1);

inline double begin_of(const Json& event) {
  return event.at("ts").get<double>();
}
inline double end_of(const Json& event) {
  return begin_of(event) + event.at("dur").get<double>();
}

}  // namespace libhvd::test
