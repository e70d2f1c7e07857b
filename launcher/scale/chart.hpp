// The picture of a study: time of an epoch, samples a second and speed-up, each beside the ideal.
#pragma once

#include "scale/summary.hpp"

#include <string>

namespace hvdrun::scale {

// A whole SVG file that needs nothing else, light or dark as the reader's system is. Its text can
// be selected. `background`: its own, for where it does not stand on a page that has one.
std::string study_svg(const Summary& summary, bool background);

}  // namespace hvdrun::scale
