// Text made fit to stand in XML and HTML.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun::scale {

// "&", "<", ">" and quotes as entities; what is no UTF-8, and control characters, which XML 1.0
// does not allow, as U+FFFD.
std::string escape_markup(std::string_view text);

}  // namespace hvdrun::scale
