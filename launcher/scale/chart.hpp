// The picture of a study: time of an epoch, samples a second and speed-up, each beside the ideal.
#pragma once

#include "scale/summary.hpp"

#include <string>

namespace hvdrun::scale {

// A whole SVG file that needs nothing else, light or dark as the reader's system is. Its text can
// be selected.
std::string study_svg(const Summary& summary);

// The same for a page of HTML: a picture for each plot, which stand below each other where the
// screen is narrow.
std::string study_plots(const Summary& summary);

}  // namespace hvdrun::scale
