// Notes about hosts, in which hosts that have the same to be said of come together:
// "4 ranks on each of n[1-64] share 2 cores".
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace hvdrun {

class HostNotes {
 public:
  // A note is: before, the host, after. Of several hosts: before, "each of" them, after.
  void add(const std::string& host, std::string before, const std::string& after);

  // "n1 gets no rank", "n[1-4] get no rank".
  void add_plural(const std::string& host, std::string after_one, std::string after_many);

  // The notes in the order in which they were first added.
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
