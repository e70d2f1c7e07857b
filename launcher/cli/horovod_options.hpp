// horovodrun's options that hvdrun does not have, known by name so that none is silently ignored.
// Constants and pure functions, for any thread.
//
// The rule: an option that only tunes Horovod's speed, messages or connections is accepted with a
// note. An option that demands a host, a place on it or another number of ranks is refused.
// Source: horovodrun 0.28.1, horovod/runner/launch.py.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace hvdrun::cli {

struct HorovodOption {
  std::array<std::string_view, 2> spellings;  // as typed; the second may be empty
  bool takes_value = false;
  bool accepted = false;  // without effect
  // Accepted: why it makes no difference. Refused: why, and what to use instead.
  std::string_view reason;
};

std::span<const HorovodOption> horovod_options();

// Returns the option with that spelling, or null.
const HorovodOption* find_horovod_option(std::string_view spelling);

// Returns "--mpi-args is an option of horovodrun that hvdrun does not have: hvdrun calls no
// mpirun; …". `named` is the option as it was typed, or the key of a config file.
std::string refusal_of(const HorovodOption& option, const std::string& named);

}  // namespace hvdrun::cli
