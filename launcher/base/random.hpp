// Unguessable names and keys, from the kernel.
#pragma once

#include <cstddef>
#include <string>

namespace hvdrun {

// `bytes` random bytes as 2 × bytes hexadecimal digits, from getrandom(2).
std::string random_hex(std::size_t bytes);

}  // namespace hvdrun
