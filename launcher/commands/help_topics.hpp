// hvdrun help TOPIC: the pages of the documents that are installed with hvdrun, in
// PREFIX/share/hvdrun/doc.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct HelpTopic {
  std::string name;  // "exit-codes": the file's name, or that of the folder for its index
  std::filesystem::path file;
};

// Returns the topics below the folder, by name. Returns none if there is no such folder.
std::vector<HelpTopic> find_topics(const std::filesystem::path& folder);

// Returns the topic of that name, also by another word for it: "env", "pytorch", "error". Error
// (kExitUsage): there is none, with the nearest name of a topic or a command.
Result<HelpTopic> find_topic(const std::vector<HelpTopic>& topics,
                             std::span<const std::string_view> commands, std::string_view word);

// Prints the page of the topic, or the list of topics for the word "topics": on a terminal through
// $PAGER, or less if there is one. A topic with the name of a command is listed as "NAME.md",
// because `hvdrun help NAME` is the command's help. Returns hvdrun's exit code.
Result<int> show_topic(const std::filesystem::path& folder,
                       std::span<const std::string_view> commands, std::string_view word,
                       const Environment& environment);

}  // namespace hvdrun
