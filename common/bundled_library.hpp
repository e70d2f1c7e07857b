// Libraries that a wheel brings along, for machines that lack them: PMIx, OpenSSL, libssh. They are
// in the wheel's folder hvd/lib, beside libhvd. A build without HVD_BUNDLED_PMIX brings none; there
// each function only opens the machine's own. Any thread.
#pragma once

#include "common/result.hpp"
#include "common/shared_library.hpp"

#include <string>
#include <string_view>

namespace common {

// Opens the machine's own library if it is there, or else the one of the wheel. The error is about
// the machine's own.
Result<SharedLibrary, std::string> open_own_or_bundled(const std::string& soname);

// Opens libpmix.so.2: the machine's own, or the one of the wheel where that is newer. One that is
// open in this process already is taken as it is, because a process can have only one.
Result<SharedLibrary, std::string> open_pmix();

// Returns whether the text of PMIx_Get_version(), "OpenPMIx 4.2.2 (…)", names that version
// ("4.2.2") or a newer one. A text without a version is older than any.
bool pmix_is_at_least(std::string_view text, std::string_view version);

}  // namespace common
