// Where the digits lie when --data does not say.
#pragma once

#include <string>

namespace digits {

// Beside an installed example, else in the source tree that this one was built from.
std::string default_data_path();

}  // namespace digits
