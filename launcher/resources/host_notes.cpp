#include "resources/host_notes.hpp"

#include "base/host_list.hpp"

#include <utility>

namespace hvdrun {

void HostNotes::append(const std::string& host, Note note) {
  const auto [at, is_new] = known_.emplace(std::tuple(note.before, note.after_one), notes_.size());
  if (is_new) notes_.push_back(std::move(note));
  notes_[at->second].hosts.push_back(host);
}

void HostNotes::add(const std::string& host, std::string before, const std::string& after) {
  append(host, {std::move(before), after, after, {}});
}

void HostNotes::add_plural(const std::string& host, std::string after_one, std::string after_many) {
  append(host, {"", std::move(after_one), std::move(after_many), {}});
}

std::vector<std::string> HostNotes::lines() const {
  std::vector<std::string> lines;
  for (const auto& note : notes_) {
    const bool is_one = note.hosts.size() == 1;
    lines.push_back(note.before + (is_one || note.before.empty() ? "" : "each of ") +
                    fold_hosts(note.hosts) + (is_one ? note.after_one : note.after_many));
  }
  return lines;
}

}  // namespace hvdrun
