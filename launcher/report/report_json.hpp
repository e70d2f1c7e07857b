// The report for programs, as --report writes it. docs/reference/report.md describes the fields.
#pragma once

#include "base/result.hpp"
#include "model/report.hpp"

#include <filesystem>
#include <string>

namespace hvdrun {

std::string report_json(const Report& report);

// Writes the file whole or not at all: under another name, then renamed. Error: names the file.
Result<void> write_report(const Report& report, const std::filesystem::path& file);

// Checks that write_report can write the file. Error (kExitUsage): it cannot, and why.
Result<void> check_report_file(const std::filesystem::path& file);

}  // namespace hvdrun
