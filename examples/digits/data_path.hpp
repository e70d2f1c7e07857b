// Where the digits lie when --data does not say.
#pragma once

#include <string>

namespace digits {

// In the folder share of where this program was installed or built.
std::string default_data_path();

}  // namespace digits
