// Bytes as hexadecimal text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace libhvd {

std::string to_hex(std::span<const std::uint8_t> bytes);

// Nothing unless the text is an even number of hexadecimal digits.
std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text);

}  // namespace libhvd
