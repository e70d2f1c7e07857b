// What a command such as `hvdrun top` and a running hvdrun say to each other: one line of JSON each
// way, a request and its answer.
//
//   {"version": 1, "word": "state", "arguments": {}}
//   {"version": 1, "hvdrun": "0.1.0", "answer": {...}}
//   {"version": 1, "hvdrun": "0.1.0", "error": "…", "exit_code": 2}
//
// `version`, `hvdrun`, `error` and `exit_code` mean the same in every version, so that a command
// and a job of different versions can say so. Pure functions, for any thread. Parsers return an
// error for malformed text, and accept any bytes without a crash.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace hvdrun {

using ControlJson = nlohmann::json;

inline constexpr int kControlVersion = 1;
inline constexpr std::size_t kMostRequest = 64u << 10;  // bytes
inline constexpr std::size_t kMostAnswer = 64u << 20;

struct ControlRequest {
  std::string word;
  ControlJson arguments;  // an object
};

// Returns the JSON as one line without its newline. Bytes that are no UTF-8 are replaced.
std::string json_line(const ControlJson& json);

// Converts bytes, which need not be UTF-8, to text with a character for each, and back. A character
// above 255 becomes "?".
std::string text_of_bytes(std::string_view bytes);
std::string bytes_of_text(std::string_view text);

// These return whole lines. `answer` is JSON in one line.
std::string pack_request(std::string_view word, const ControlJson& arguments);
std::string pack_answer(std::string_view answer);
std::string pack_error(const Error& error);

// Takes a line without its newline. Errors: it is malformed, or of another version.
Result<ControlRequest> parse_request(std::string_view line);

// Returns the answer. Errors: the one that the job has sent; the line is malformed; the job's
// hvdrun is of another version.
Result<ControlJson> parse_answer(std::string_view line);

}  // namespace hvdrun
