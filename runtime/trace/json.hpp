// Appends strings and times to a JSON text (RFC 8259). Pure functions; they cannot fail.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace libhvd {

// Appends a string with its quotes. JSON is UTF-8, so bytes that are not valid UTF-8 become U+FFFD.
void append_json_string(std::string& json, std::string_view bytes);

// Appends nanoseconds as microseconds, the unit of the trace event format: "12.345".
void append_microseconds(std::string& json, std::int64_t ns);

}  // namespace libhvd
