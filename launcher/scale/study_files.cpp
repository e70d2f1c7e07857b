#include "scale/study_files.hpp"

#include "scale/chart.hpp"
#include "scale/page.hpp"
#include "scale/study_json.hpp"

#include <cerrno>
#include <cstdio>
#include <string>

namespace hvdrun::scale {
namespace {

// To a file beside it, then renamed.
Result<void> write_file(const std::filesystem::path& file, const std::string& text) {
  const std::string part = file.string() + ".part";
  std::FILE* const stream = std::fopen(part.c_str(), "we");
  bool written = stream != nullptr;
  if (stream != nullptr) {
    written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
    written = std::fclose(stream) == 0 && written;
  }
  if (written && std::rename(part.c_str(), file.c_str()) == 0) return {};
  const int error = errno;
  if (stream != nullptr) std::remove(part.c_str());
  return fail_errno("cannot write " + file.string(), error);
}

}  // namespace

Result<void> write_study(const Study& study, const Summary& summary,
                         const std::filesystem::path& folder) {
  HVD_CHECK(write_file(folder / "scaling.json", study_json(study, summary)));
  HVD_CHECK(write_file(folder / "scaling.csv", study_csv(summary)));
  HVD_CHECK(write_file(folder / "scaling.svg", study_svg(summary, true)));
  return write_file(folder / "scaling.html", study_page(study, summary));
}

}  // namespace hvdrun::scale
