// The files of a study: DIR/scaling.json, .csv, .svg and .html.
#pragma once

#include "base/result.hpp"
#include "scale/study.hpp"
#include "scale/summary.hpp"

#include <filesystem>

namespace hvdrun::scale {

// Each is written whole or not at all, over an older one. Error: names the file.
Result<void> write_study(const Study& study, const Summary& summary,
                         const std::filesystem::path& folder);

}  // namespace hvdrun::scale
