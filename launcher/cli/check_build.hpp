// The text of --check-build: what this hvdrun can do, and which libraries it finds on this machine.
// For one thread at a time. It cannot fail.
#pragma once

#include <functional>
#include <string>

namespace hvdrun {

// Returns whether the dynamic loader can open a library of that soname.
bool library_opens(const char* soname);

// Returns the text, in the form of horovodrun's.
std::string check_build_text(const std::function<bool(const char* soname)>& opens = library_opens);

}  // namespace hvdrun
