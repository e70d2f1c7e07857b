// Pieces of JSON (RFC 8259), appended to a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace libhvd {

// A string with its quotes. `bytes` may be anything: what is not valid UTF-8 becomes U+FFFD, as
// JSON has to be UTF-8.
void append_json_string(std::string& json, std::string_view bytes);

// Nanoseconds as microseconds, "12.345": the unit of the trace event format.
void append_microseconds(std::string& json, std::int64_t ns);

}  // namespace libhvd
