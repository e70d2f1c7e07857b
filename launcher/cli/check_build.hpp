// --check-build: what this hvdrun can do, and which libraries it finds on this machine.
#pragma once

#include <functional>
#include <string>

namespace hvdrun {

// Returns whether the dynamic loader can open a library of that soname.
bool library_opens(const char* soname);

// Returns the text of --check-build, in the form of horovodrun's. `opens` is library_opens, except
// in tests.
std::string check_build_text(const std::function<bool(const char* soname)>& opens = library_opens);

}  // namespace hvdrun
