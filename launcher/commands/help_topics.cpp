#include "commands/help_topics.hpp"

#include "base/files.hpp"
#include "cli/option_sets.hpp"
#include "cli/program.hpp"
#include "commands/page_text.hpp"
#include "commands/subcommand.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWidth = 80;
constexpr std::size_t kMostWidth = 110;  // longer lines are hard to read
constexpr std::string_view kTopics = "topics";
constexpr std::size_t kLargestPage = 4 * 1024 * 1024;

// Words that users type for a topic.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"apptainer", "containers"},   {"codes", "exit-codes"},
    {"conda", "install"},          {"docker", "containers"},
    {"env", "environment"},        {"error", "errors"},
    {"exit", "exit-codes"},        {"exit-code", "exit-codes"},
    {"gdb", "debuggers"},          {"hang", "hangs"},
    {"keras", "tensorflow"},       {"lightning", "torch"},
    {"pdb", "debuggers"},          {"podman", "containers"},
    {"pytorch", "torch"},          {"requeue", "time-limits"},
    {"restart", "checkpoints"},    {"settings", "config"},
    {"singularity", "containers"}, {"variables", "environment"},
};

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return kWidth;
  return std::min<std::size_t>(size.ws_col, kMostWidth);
}

Result<std::string> list_text(const std::vector<HelpTopic>& topics,
                              std::span<const std::string_view> commands) {
  std::vector<TableRow> rows{{"TOPIC", "PAGE"}};
  for (const auto& topic : topics) {
    HVD_TRY(const auto page, read_file(topic.file, kLargestPage, "the page"));
    const bool is_command = std::ranges::count(commands, topic.name) > 0;
    rows.push_back({topic.name + (is_command ? ".md" : ""), page_title(page)});
  }
  std::string out = "usage: hvdrun help TOPIC\n\n";
  for (const auto& line : table_lines(rows)) out += line + "\n";
  return out + "\nhvdrun WORD --help is the help of a command, man hvdrun the manual page.\n";
}

// Returns the pager's command line; empty: print without one.
std::string pager_of(const Environment& environment) {
  const auto* terminal = find_variable(environment, "TERM");
  if (::isatty(STDOUT_FILENO) == 0 || terminal == nullptr || *terminal == "dumb") return {};
  if (const auto* pager = find_variable(environment, "PAGER")) return *pager;
  return cli::find_program("less", environment, "/") ? "less -FRX" : std::string();
}

int print_paged(const std::string& text, const Environment& environment) {
  const auto pager = pager_of(environment);
  if (pager.empty()) return print_text(text);
  std::fflush(stdout);
  FILE* const pipe = ::popen(pager.c_str(), "w");
  if (pipe == nullptr) return print_text(text);
  std::fwrite(text.data(), 1, text.size(), pipe);
  // A reader that leaves early is no error. If there is no such program, sh has said so.
  return ::pclose(pipe) == 127 << 8 ? print_text(text) : kExitOk;
}

// Returns where else the word is explained; "" if that is not known.
std::string other_place(std::string_view word) {
  if (word.starts_with('-')) return "; hvdrun --help lists the options";
  for (const auto table : cli::run_options())
    for (const auto& option : table)
      if (option.name == word || option.name.starts_with(std::string(word) + "-"))
        return fmt::format("; --{} is an option: man hvdrun", option.name);
  const bool is_number = !word.empty() && word.find_first_not_of("0123456789") == word.npos;
  return is_number ? "; hvdrun help exit-codes has the numbers" : "";
}

}  // namespace

std::vector<HelpTopic> find_topics(const fs::path& folder) {
  std::vector<HelpTopic> topics;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const auto& file = at->path();
    if (file.extension() != ".md") continue;
    const auto place = file.parent_path();
    if (file.stem() != "index")
      topics.push_back({file.stem(), file});
    else if (place != folder)
      topics.push_back({place.filename(), file});
  }
  const auto depth = [](const HelpTopic& topic) {
    return std::distance(topic.file.begin(), topic.file.end());
  };
  std::ranges::sort(topics, {},
                    [&](const auto& each) { return std::pair(each.name, depth(each)); });
  for (std::size_t i = topics.size(); i-- > 1;)  // the others keep the names before them
    if (topics[i].name == topics[i - 1].name)
      topics[i].name = topics[i].file.parent_path().filename() / topics[i].name;
  std::ranges::sort(topics, {}, &HelpTopic::name);
  return topics;
}

Result<HelpTopic> find_topic(const std::vector<HelpTopic>& topics,
                             std::span<const std::string_view> commands, std::string_view word) {
  std::string name(word);
  for (auto& letter : name)
    letter =
        letter == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  if (name.ends_with(".md")) name.resize(name.size() - 3);
  const auto whole = std::ranges::find(topics, name, &HelpTopic::name);  // "formats/scaling"
  if (whole != topics.end()) return *whole;
  if (const auto slash = name.rfind('/'); slash != std::string::npos) name.erase(0, slash + 1);
  const auto other =
      std::ranges::find(kOtherNames, name, &std::pair<std::string_view, std::string_view>::first);
  if (other != std::end(kOtherNames)) name = other->second;
  const auto at = std::ranges::find(topics, name, &HelpTopic::name);
  if (at != topics.end()) return *at;
  std::vector<std::string_view> names(commands.begin(), commands.end());
  for (const auto& topic : topics) names.emplace_back(topic.name);
  const auto nearest = nearest_name(name, names);
  return fail("hvdrun help has no topic " + quote(word) +
                  (nearest.empty() ? other_place(word) + "; "
                                   : "; did you mean " + std::string(nearest) + "? ") +
                  "hvdrun help topics lists all",
              kExitUsage);
}

Result<int> show_topic(const fs::path& folder, std::span<const std::string_view> commands,
                       std::string_view word, const Environment& environment) {
  const auto topics = find_topics(folder);
  if (topics.empty())
    return fail("hvdrun's pages are not installed: there is no " + folder.string(), kExitUsage);
  if (word == kTopics) {
    HVD_TRY(const auto text, list_text(topics, commands));
    return print_paged(text, environment);
  }
  HVD_TRY(const auto topic, find_topic(topics, commands, word));
  HVD_TRY(const auto page, read_file(topic.file, kLargestPage, "the page"));
  return print_paged(page_text(page, terminal_width()), environment);
}

}  // namespace hvdrun
