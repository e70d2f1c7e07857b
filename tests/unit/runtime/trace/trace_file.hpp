// Reads a timeline as a viewer does, and checks it against the trace event format.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace libhvd::test {

using Json = nlohmann::json;

// Returns the events of the file after checking all of it. If the file is missing or is no
// timeline, the test fails, and there are no events.
std::vector<Json> read_trace(const std::string& path);

// Does the same with a text; `name` is for messages.
std::vector<Json> parse_trace(const std::string& text, const std::string& name);

// Returns the events of a category, of one rank or (-1) of all.
std::vector<Json> events_of(const std::vector<Json>& events, const std::string& category,
                            int rank = -1);
// Returns the first event with that name, or null.
Json find_event(const std::vector<Json>& events, const std::string& name, int rank = -1);

inline double begin_of(const Json& event) {
  return event.at("ts").get<double>();
}
inline double end_of(const Json& event) {
  return begin_of(event) + event.at("dur").get<double>();
}

}  // namespace libhvd::test
