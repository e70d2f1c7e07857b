// Notes about hosts, which name all hosts with the same note in one line: "4 ranks on each of
// n[1-64] share 2 cores". A value, for one thread at a time. It cannot fail.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace hvdrun {

class HostNotes {
 public:
  // Adds the note `before`, the host, `after`. For several hosts it is: `before`, "each of" them,
  // `after`.
  void add(const std::string& host, std::string before, const std::string& after);

  // Adds "n1 gets no rank", or for several hosts "n[1-4] get no rank".
  void add_plural(const std::string& host, std::string after_one, std::string after_many);

  // Returns the notes in the order in which they were first added.
  std::vector<std::string> lines() const;

 private:
  struct Note {
    std::string before;
    std::string after_one;
    std::string after_many;
    std::vector<std::string> hosts;
  };
  void append(const std::string& host, Note note);

  std::vector<Note> notes_;
  std::map<std::tuple<std::string, std::string>, std::size_t> known_;  // by before and after_one
};

}  // namespace hvdrun
