// Escapes text for XML and HTML. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun::scale {

// Returns the text with entities for "&", "<", ">" and quotes. Bytes that are not UTF-8, and
// control characters, which XML 1.0 does not allow, become U+FFFD.
std::string escape_markup(std::string_view text);

}  // namespace hvdrun::scale
