#include "look/nccl_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::size_t kMostMembers = 1u << 20;

// Ranks with the same count.
struct CallGroup {
  std::uint64_t count = 0;
  std::size_t size = 0;
  std::vector<int> listed;
};

// What differs within one communicator.
struct NcclDraft {
  std::map<int, NcclMember> listed;
  std::map<std::string, std::vector<CallGroup>> functions;
  bool is_useless = false;
};

template <class T>
std::optional<T> number_after(std::string_view line, std::string_view words) {
  const auto at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + words.size());
  T number = 0;
  if (std::from_chars(line.data(), line.data() + line.size(), number).ec != std::errc{})
    return std::nullopt;
  return number;
}

class TextReader {
 public:
  void read(std::string_view line) {
    if (line.empty()) return;
    if (line[0] == '#') return begin(line);
    if (!line.starts_with("  ")) {
      draft_ = nullptr;  // a part about the job
      return;
    }
    line.remove_prefix(2);
    if (draft_ == nullptr) return;
    constexpr std::string_view kDifferent = "Communicator ranks have different ";
    if (line.starts_with(kDifferent)) {
      section(line.substr(kDifferent.size()));
    } else if (part_ == Part::calls || part_ == Part::silent) {
      if (line.starts_with("Rank "))
        rank(line);
      else if (part_ == Part::calls)
        group(line);
    }
  }

  std::vector<NcclCommunicator> finish() const {
    std::vector<NcclCommunicator> communicators;
    for (const auto& [id, draft] : drafts_)
      if (auto communicator = communicator_of(id, draft))
        communicators.push_back(std::move(*communicator));
    return communicators;
  }

 private:
  enum class Part { other, calls, silent };

  // "#0-0 (27a079b828ff1a75) MISMATCH"
  void begin(std::string_view line) {
    const auto open = line.find('(');
    const auto close = line.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
      draft_ = nullptr;
      return;
    }
    draft_ = &drafts_[std::string(line.substr(open + 1, close - open - 1))];
    part_ = line.ends_with("INCOMPLETE") ? Part::silent : Part::other;
    // It has failed: that is no wait.
    if (line.ends_with("ERROR")) draft_->is_useless = true;
  }

  // The name of a function and two words more, in NCCL 2.24 without a name ("collective"); or
  // "status".
  void section(std::string_view what) {
    const auto end = what.find(" operation count");
    part_ = end == std::string_view::npos ? Part::other : Part::calls;
    if (part_ == Part::other)
      draft_->is_useless = true;  // it begins or ends
    else
      groups_ = &draft_->functions[std::string(what.substr(0, end))];
  }

  static std::uint64_t count_in(std::string_view line) {
    return number_after<std::uint64_t>(line, "launched up to operation ").value_or(0);
  }

  // "26 ranks have launched up to operation 6650", "2 ranks have not launched any operations"
  void group(std::string_view line) {
    const auto size = number_after<std::size_t>(line, "");
    if (!size || *size > kMostMembers || line.find(" ranks have ") == std::string_view::npos)
      draft_->is_useless = true;
    else
      groups_->push_back({count_in(line), *size, {}});
  }

  // "Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210", "Rank 3 has launched up to
  // operation 6649 -- …"
  void rank(std::string_view line) {
    const auto number = number_after<int>(line, "Rank ");
    const auto pid = number_after<pid_t>(line, " managed by process ");
    constexpr std::string_view kNode = " on node ";
    const auto node = line.rfind(kNode);
    if (!number || !pid || node == std::string_view::npos) {
      draft_->is_useless = true;
      return;
    }
    auto& member = draft_->listed[*number];
    member.rank = *number;
    member.pid = *pid;
    member.host = line.substr(node + kNode.size());
    if (part_ == Part::silent) {
      member.silent = true;
      return;
    }
    if (line.find(" launched ") != std::string_view::npos)
      groups_->push_back({count_in(line), 1, {}});
    if (groups_->empty())
      draft_->is_useless = true;
    else
      groups_->back().listed.push_back(*number);
  }

  // Sets the calls of one function. Returns false if it is open whose they are.
  static bool set_calls(const std::string& function, const std::vector<CallGroup>& groups,
                        std::vector<NcclMember>& members) {
    std::map<int, std::uint64_t> listed;
    const CallGroup* rest = nullptr;
    for (const auto& group : groups) {
      for (const int rank : group.listed) listed[rank] = group.count;
      if (group.listed.size() == group.size) continue;
      if (rest != nullptr || !group.listed.empty()) return false;
      rest = &group;
    }
    for (auto& member : members) {
      if (member.silent) continue;
      const auto at = listed.find(member.rank);
      if (at == listed.end() && rest == nullptr) return false;
      member.calls[function] = at == listed.end() ? rest->count : at->second;
    }
    return true;
  }

  static std::optional<NcclCommunicator> communicator_of(const std::string& id,
                                                         const NcclDraft& draft) {
    if (draft.is_useless) return std::nullopt;
    NcclCommunicator communicator{id, {}};
    std::size_t heard = 0;
    for (const auto& [rank, member] : draft.listed) {
      communicator.members.push_back(member);
      if (!member.silent) ++heard;
    }
    std::size_t size = 0;
    for (const auto& [function, groups] : draft.functions) {
      std::size_t sum = 0;
      for (const auto& group : groups) sum += group.size;
      if ((size != 0 && sum != size) || sum > kMostMembers) return std::nullopt;
      size = sum;
    }
    if (size < heard) return std::nullopt;
    communicator.members.resize(communicator.members.size() + size - heard);
    for (const auto& [function, groups] : draft.functions)
      if (!set_calls(function, groups, communicator.members)) return std::nullopt;
    return communicator;
  }

  std::map<std::string, NcclDraft> drafts_;   // by communicator
  NcclDraft* draft_ = nullptr;                // that the lines belong to; null: to none
  Part part_ = Part::other;                   // of it
  std::vector<CallGroup>* groups_ = nullptr;  // of the function, in Part::calls
};

}  // namespace

std::optional<std::vector<NcclCommunicator>> parse_nccl_text(const std::string& text) {
  // The part with the warnings comes last.
  if (!text.starts_with("NCCL version ") || text.find("\nWarnings\n") == std::string::npos)
    return std::nullopt;
  TextReader reader;
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    reader.read(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return reader.finish();
}

}  // namespace hvdrun
