// Tests the plots and the page of a study. tests/e2e/test_scale.py checks with an XML parser that
// the plots are well-formed.
#include "commands/scale_page.hpp"

#include "commands/scale_plot.hpp"
#include "example_study.hpp"

#include <cmath>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace hvdrun::scale {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string svg_of(const Study& study) {
  return study_svg(summarise(study));
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Chart, HasThreePlotsWithAnIdealLine) {
  const auto svg = svg_of(example_study());
  EXPECT_THAT(svg, AllOf(HasSubstr("Time of an epoch"), HasSubstr("Throughput"),
                         HasSubstr("Speed-up"), HasSubstr("prefers-color-scheme:dark")));
  EXPECT_EQ(count(svg, "class=\"ideal\""), 4) << "three plots and the legend";
  EXPECT_EQ(count(svg, "class=\"point\""), 10);
  EXPECT_EQ(count(svg, "class=\"range\""), 3) << "a range at 2 ranks in each plot";
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Chart, OmitsAPlotWithoutValues) {
  Study study = example_study();
  for (auto& run : study.runs) {
    run.throughput.reset();
    run.epoch_seconds.reset();
  }
  EXPECT_THAT(svg_of(study), AllOf(HasSubstr("Time of a run"), Not(HasSubstr("Throughput"))));
}

TEST(Chart, IsDrawnForOneSizeAndForNone) {
  Study study = example_study();
  study.runs = {example_run(2, 1, 5, 1000, 0.5)};
  EXPECT_THAT(svg_of(study), AllOf(HasSubstr("times as fast as 2 ranks"), Not(HasSubstr("nan"))));
  study.runs = {failed_run(1)};
  EXPECT_THAT(svg_of(study), AllOf(HasSubstr("not known"), Not(HasSubstr("nan"))));
}

TEST(Chart, IsLogarithmicIfSizesAreFarApart) {
  Study study;
  for (int size = 1; size <= 512; size *= 2) {
    study.sizes.push_back(size);
    study.runs.push_back(example_run(size, 1, 100.0 / size, 1000, 0.5));
  }
  const auto svg = svg_of(study);
  EXPECT_THAT(svg, AllOf(HasSubstr(">1000<"), HasSubstr(">512<"), Not(HasSubstr("nan"))));
  EXPECT_THAT(svg, Not(HasSubstr("class=\"value\""))) << "ten numbers would overlap";
}

TEST(Chart, OmitsValuesThatAreNotANumber) {
  Study study = example_study();
  study.runs[4].epoch_seconds = std::nan("");
  EXPECT_THAT(svg_of(study), Not(HasSubstr("nan")));
}

// Returns the numbers at points that a plot's line crosses.
std::vector<std::string> crossed_labels(const std::string& svg) {
  std::vector<std::string> crossed;
  std::vector<std::pair<double, double>> line;
  static const std::regex kElements(
      "class=\"line\" d=\"([^\"h]+)\"|class=\"value\" x=\"([0-9.]+)\" y=\"([0-9.]+)\">([0-9.]+)<");
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), kElements);
       at != std::sregex_iterator(); ++at) {
    if ((*at)[1].matched) {
      line.clear();
      std::string places = (*at)[1];
      for (char& c : places)
        if (c == 'M' || c == 'L') c = ' ';
      std::istringstream numbers(places);
      for (double x = 0, y = 0; numbers >> x >> y;) line.emplace_back(x, y);
      continue;
    }
    const double left = std::stod((*at)[2]);
    const double base = std::stod((*at)[3]);
    const double right = left + 6.5 * static_cast<double>((*at)[4].length());
    for (std::size_t i = 1; i < line.size(); ++i)
      for (double part = 0; part <= 1; part += 0.01) {
        const double x = line[i - 1].first + part * (line[i].first - line[i - 1].first);
        const double y = line[i - 1].second + part * (line[i].second - line[i - 1].second);
        if (x > left && x < right && y > base - 9 && y < base) {
          crossed.push_back((*at)[4]);
          part = 2;
        }
      }
  }
  return crossed;
}

TEST(Chart, LineCrossesNoNumber) {
  for (const double second : {0.5, 0.9, 1.0, 1.15, 3.0}) {
    Study study = example_study();
    study.runs = {example_run(1, 1, 0.0248, 1000, 0.5),
                  example_run(2, 1, 0.0248 * second, 1000, 0.5),
                  example_run(4, 1, 0.0248, 1000, 0.5)};
    EXPECT_THAT(crossed_labels(svg_of(study)), testing::IsEmpty()) << second;
  }
}

TEST(Page, HasAnImagePerPlotForNarrowScreens) {
  const auto html = study_page(example_study(), summarise(example_study()));
  EXPECT_EQ(count(html, "<svg"), 3);
  EXPECT_THAT(html, HasSubstr("flex-wrap:wrap"));
}

TEST(Page, RefersToNoOtherFile) {
  Study study = example_study();
  study.command = "hvdrun scale <train> & co";
  study.runs[2].metrics[0].value = study.runs[5].metrics[0].value = 1;
  const auto html = study_page(study, summarise(study));
  EXPECT_THAT(html,
              AllOf(HasSubstr("&lt;train&gt; &amp; co"), HasSubstr("<svg"),
                    HasSubstr("<span>4.00 s</span>"), HasSubstr("loss at 4 ranks (1.00) differs"),
                    HasSubstr("5.00 s to 5.50 s")));
  for (const char* const other : {"<script", "src=", "href=", "url(", "@import"})
    EXPECT_THAT(html, Not(HasSubstr(other)));
}

TEST(Page, NamesFailedAndMissingRuns) {
  Study study = example_study();
  study.runs = {example_run(1, 1, 5, 1000, 0.5), failed_run(2)};
  const auto html = study_page(study, summarise(study));
  EXPECT_THAT(html, AllOf(HasSubstr("failed: exit code 3"), HasSubstr("not run"),
                          Not(HasSubstr("warnings\">"))));
}

}  // namespace
}  // namespace hvdrun::scale
