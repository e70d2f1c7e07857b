// The default of --data: the path of the digits that are installed with the examples.
#pragma once

#include <string>

namespace digits {

// Returns a path in the folder `share` of the installation or build of this program.
std::string default_data_path();

}  // namespace digits
