#include "scale/study_files.hpp"

#include "base/new_file.hpp"
#include "scale/chart.hpp"
#include "scale/page.hpp"
#include "scale/study_json.hpp"

#include <string>

namespace hvdrun::scale {
namespace {

Result<void> write_file(const std::filesystem::path& file, const std::string& text) {
  HVD_TRY(NewFile made, NewFile::create(file, "cannot write " + file.string()));
  return made.commit(text);
}

}  // namespace

Result<void> write_study(const Study& study, const Summary& summary,
                         const std::filesystem::path& folder) {
  HVD_CHECK(write_file(folder / "scaling.json", study_json(study, summary)));
  HVD_CHECK(write_file(folder / "scaling.csv", study_csv(summary)));
  HVD_CHECK(write_file(folder / "scaling.svg", study_svg(summary)));
  return write_file(folder / "scaling.html", study_page(study, summary));
}

}  // namespace hvdrun::scale
