// The report for programs: what --report writes. docs/report.md describes the fields.
#pragma once

#include "base/result.hpp"
#include "model/report.hpp"

#include <filesystem>
#include <string>

namespace hvdrun {

std::string report_json(const Report& report);

// Writes it whole or not at all: to a file beside it, then renamed. Error: names the file.
Result<void> write_report(const Report& report, const std::filesystem::path& file);

// Whether write_report will have a place to write to. Error (kExitUsage): it will not, and why.
Result<void> check_report_file(const std::filesystem::path& file);

}  // namespace hvdrun
