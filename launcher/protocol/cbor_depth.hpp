// How deeply CBOR is nested. The JSON library calls itself for each level when it makes values of
// CBOR, so that bytes of another process could exhaust the stack. (Of JSON text it does not.) A
// pure function.
#pragma once

#include <string_view>

namespace hvdrun {

// Returns whether the CBOR has lists or maps in each other more deeply than any message of hvdrun.
// CBOR that is damaged before such a place is not, because its reading ends there.
bool is_nested_too_deeply(std::string_view cbor);

}  // namespace hvdrun
