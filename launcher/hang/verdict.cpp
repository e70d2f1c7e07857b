#include "hang/verdict.hpp"

#include "common/text.hpp"
#include "hang/seen_rank.hpp"
#include "hang/stack_groups.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// At most so many groups of ranks are described in the line.
constexpr std::size_t kMostDescribed = 3;

std::vector<int> numbers_of(const std::vector<const Seen*>& ranks) {
  std::vector<int> numbers;
  for (const auto* rank : ranks) numbers.push_back(rank->facts->rank);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

class Judge {
 public:
  explicit Judge(const HangFacts& facts) : facts_(facts) {
    std::set<std::string> hosts;
    for (const auto& rank : facts.ranks) {
      auto& seen = seen_.emplace_back(see(rank));
      if (passes_through(seen)) {
        seen.place.doing = Doing::computes;
        brief_ = true;
      }
      hosts.insert(rank.host);
    }
    several_hosts_ = hosts.size() > 1;
  }

  HangReport judge() {
    waits_ = facts_.waits;
    if (waits_.empty()) take_nccl();
    if (!waits_.empty())
      judge_waits();
    else if (!judge_stacks())
      judge_places();
    report_.stacks = stack_lines(facts_.ranks, report_.blamed);
    report_.problems = facts_.problems;
    for (const auto& rank : facts_.ranks)
      if (!rank.problem.empty())
        report_.problems.push_back(fmt::format("rank {}: {}", rank.rank, rank.problem));
    return one_line_each(std::move(report_));
  }

 private:
  // Makes each text one line that controls no terminal: names of files, threads and functions may
  // have any bytes.
  static HangReport one_line_each(HangReport report) {
    const auto clean = [](std::string& line) {
      std::ranges::replace(line, '\n', ' ');
      line = printable(line);
    };
    clean(report.text);
    std::ranges::for_each(report.stacks, clean);
    std::ranges::for_each(report.problems, clean);
    return report;
  }

  const Seen* find(int rank) const {
    const auto at =
        std::ranges::find_if(seen_, [rank](const Seen& seen) { return seen.facts->rank == rank; });
    return at == seen_.end() ? nullptr : &*at;
  }

  std::vector<const Seen*> find_all(const std::vector<int>& ranks) const {
    std::vector<const Seen*> found;
    for (const int rank : ranks)
      if (const auto* seen = find(rank)) found.push_back(seen);
    return found;
  }

  // Returns "rank 2 on n5", "ranks 2-3".
  std::string name_of(const std::vector<const Seen*>& ranks) const {
    std::string text = describe_ranks(numbers_of(ranks));
    const bool one_host = std::ranges::all_of(
        ranks, [&](const Seen* rank) { return rank->facts->host == ranks.front()->facts->host; });
    if (several_hosts_ && one_host && !ranks.empty()) text += " on " + ranks.front()->facts->host;
    return text;
  }

  // Returns "it is in loader.py:214 read(), sleeping", for several ranks group by group.
  std::string describe(const std::vector<const Seen*>& ranks) const {
    std::vector<std::pair<std::string, std::vector<const Seen*>>> groups;
    for (const auto* rank : ranks) {
      const auto words = words_of(*rank);
      if (words.empty()) continue;
      const auto same = std::ranges::find_if(groups, [&](const auto& group) {
        return key_of(group.second.front()->place) == key_of(rank->place);
      });
      if (same == groups.end())
        groups.push_back({words, {rank}});
      else
        same->second.push_back(rank);
    }
    if (groups.empty()) return {};
    if (groups.size() == 1 && groups[0].second.size() == ranks.size())
      return (ranks.size() == 1 ? "it is " : "they are ") + groups[0].first;
    std::string text;
    for (std::size_t index = 0; index < groups.size() && index < kMostDescribed; ++index)
      text += fmt::format("{}{} {} {}", index == 0 ? "" : "; ", name_of(groups[index].second),
                          groups[index].second.size() == 1 ? "is" : "are", groups[index].first);
    return text;
  }

  static bool is_any(const std::vector<const Seen*>& ranks, Doing doing) {
    return std::ranges::any_of(ranks, [doing](const Seen* rank) {
      return rank->facts->ended.empty() && rank->place.doing == doing;
    });
  }

  static bool does_nothing(const std::vector<const Seen*>& ranks) {
    return !is_any(ranks, Doing::computes) && !is_any(ranks, Doing::waits_for_gpu);
  }

  void blame(const std::vector<const Seen*>& ranks) {
    report_.blamed = numbers_of(ranks);
    report_.kind = does_nothing(ranks) ? HangKind::hangs : HangKind::slow;
  }

  static std::string loop_words(const std::vector<const Seen*>& ranks) {
    if (is_any(ranks, Doing::computes)) return "; it is slow, or loops without an end";
    return is_any(ranks, Doing::waits_for_gpu) ? "; the GPU is slow, or its work has no end" : "";
  }

  // ---- what NCCL's RAS has counted

  static bool is_waiting(const Seen* rank) {
    return rank->facts->ended.empty() &&
           (rank->place.doing == Doing::waits_for_gpu || rank->place.doing == Doing::in_collective);
  }

  // Takes its waits where it knows more than the stacks: not if a rank has ended or cannot run. The
  // processors run ahead of their GPUs. So a rank that has called fewer, and waits for its GPU, may
  // wait with the others for a GPU that computes. A rank that does not wait is more telling.
  void take_nccl() {
    const bool is_clear = std::ranges::any_of(seen_, [](const Seen& rank) {
      return !rank.facts->ended.empty() || cannot_run(rank.place);
    });
    if (is_clear) return;
    const bool all_wait =
        std::ranges::all_of(seen_, [](const Seen& rank) { return is_waiting(&rank); });
    for (auto wait : facts_.nccl.waits) {
      std::erase_if(wait.waiting, [&](int rank) {
        const auto* seen = find(rank);
        return seen == nullptr || !is_waiting(seen);
      });
      if (!wait.waiting.empty() &&
          (all_wait || !std::ranges::all_of(find_all(wait.missing), is_waiting)))
        waits_.push_back(std::move(wait));
    }
    is_of_nccl_ = !waits_.empty();
  }

  // ---- what libhvd reports, or NCCL

  std::string title(const CollectiveWait& wait) const {
    return is_of_nccl_ ? wait.collective : title_of(wait.collective);
  }

  // Returns ", for which 3 ranks have waited 75 s".
  std::string waited_words(const CollectiveWait& wait, bool is_sure) const {
    const bool one = wait.waiting.size() == 1;
    const auto who = one ? describe_ranks(wait.waiting) : plural(wait.waiting.size(), "rank");
    if (is_of_nccl_ && !is_sure)
      return fmt::format(", which {} {} called", who, one ? "has" : "have");
    if (is_of_nccl_) return fmt::format(", for which {} {}", who, one ? "waits" : "wait");
    return fmt::format(", for which {} {} waited {}", who, one ? "has" : "have",
                       wait_time_text(wait.seconds));
  }

  const CollectiveWait* wait_of(int rank, const CollectiveWait* except) const {
    for (const auto& wait : waits_)
      if (&wait != except && std::ranges::find(wait.waiting, rank) != wait.waiting.end())
        return &wait;
    return nullptr;
  }

  // Follows ranks that are missing because they wait in another collective for others.
  void judge_waits() {
    const auto* wait = &waits_.front();
    std::set<const CollectiveWait*> path;
    while (path.insert(wait).second) {
      const CollectiveWait* next = nullptr;
      for (const int rank : wait->missing)
        if (const auto* other = wait_of(rank, wait); other != nullptr)
          next = other;
        else {
          next = nullptr;  // one that waits in no collective: it is to blame
          break;
        }
      if (next == nullptr) return blame_missing(*wait);
      if (path.contains(next)) return blame_circle(*wait, *next);
      wait = next;
    }
  }

  void blame_missing(const CollectiveWait& wait) {
    const auto missing = find_all(wait.missing);
    blame(missing);
    report_.waiting = wait.waiting;
    report_.collective = wait.collective;
    std::string call;
    if (const auto* rank = find(wait.waiting.front());
        rank != nullptr && rank->facts->collective == wait.collective && rank->facts->calls > 0)
      call = fmt::format(" (call {})", with_commas(rank->facts->calls + 1));
    const bool one = missing.size() == 1;
    const bool have_ended = !missing.empty() && std::ranges::all_of(missing, [](const Seen* rank) {
      return !rank->facts->ended.empty();
    });
    std::string text = name_of(missing);
    if (have_ended)
      text += fmt::format(" {} ended ({})", one ? "has" : "have", missing.front()->facts->ended);
    else
      text += one ? " has not come" : " have not come";
    const bool waits_too = is_of_nccl_ && is_any(missing, Doing::waits_for_gpu);
    text += fmt::format("{} {}{}{}", have_ended ? " without" : " to", title(wait), call,
                        waited_words(wait, !waits_too));
    if (const auto words = describe(missing); !words.empty()) text += "; " + words;
    report_.text =
        text + (waits_too
                    ? "; the GPU computes, or is in a collective that another GPU has not reached"
                    : loop_words(missing));
  }

  void blame_circle(const CollectiveWait& one, const CollectiveWait& other) {
    std::set<int> ranks(one.waiting.begin(), one.waiting.end());
    ranks.insert(other.waiting.begin(), other.waiting.end());
    report_.blamed.assign(ranks.begin(), ranks.end());
    report_.waiting = report_.blamed;
    report_.kind = HangKind::hangs;
    report_.collective = one.collective;
    const auto part = [&](const CollectiveWait& wait) {
      const auto* rank = find(wait.waiting.front());
      const auto from = rank == nullptr ? "" : rank->place.called_from;
      return fmt::format("{} {} in {}{}", describe_ranks(wait.waiting),
                         wait.waiting.size() == 1 ? "waits" : "wait", title(wait),
                         from.empty() ? "" : ", called from " + from);
    };
    report_.text = fmt::format(
        "{}, and {}: they wait for each other; every rank must call collectives in the same order",
        part(other), part(one));
  }

  // ---- what stacks show

  std::string call_words(const Seen& rank) const {
    const auto& place = rank.place;
    return place.collective +
           (place.called_from.empty() ? "" : ", called from " + place.called_from);
  }

  std::string waiters_words(const std::vector<const Seen*>& ranks) const {
    const auto count = ranks.size();
    const auto who = count == 1 ? name_of(ranks) : plural(count, "rank");
    const auto* first = ranks.front();
    const auto is_of_first = [first](const Seen* rank) {
      return rank->place.called_from == first->place.called_from &&
             rank->place.where == first->place.where;
    };
    const bool same_line = std::ranges::all_of(ranks, is_of_first);
    if (first->place.doing == Doing::waits_for_gpu)
      return fmt::format(
          "{} {}{}", who, count == 1 ? "waits for its GPU" : "wait for their GPUs",
          same_line && !first->place.where.empty() ? ", in " + first->place.where : "");
    return fmt::format("{} {} in {}", who, count == 1 ? "is" : "are",
                       same_line ? call_words(*first) : first->place.collective);
  }

  // Returns false if no rank is in a collective. One that waits for its GPU is, if none is on the
  // processor: collectives of NCCL run on the GPU.
  bool judge_stacks() {
    std::map<std::string, std::vector<const Seen*>> inside;
    std::vector<const Seen*> on_gpu;
    std::vector<const Seen*> others;
    std::vector<const Seen*> ended;
    std::vector<const Seen*> unseen;
    for (const auto& rank : seen_) {
      if (!rank.facts->ended.empty())
        ended.push_back(&rank);
      else if (rank.place.doing == Doing::in_collective)
        inside[rank.place.collective].push_back(&rank);
      else if (rank.place.doing == Doing::waits_for_gpu)
        on_gpu.push_back(&rank);
      else if (rank.place.doing == Doing::unknown)
        unseen.push_back(&rank);
      else
        others.push_back(&rank);
    }
    if (!inside.empty())
      others.insert(others.end(), on_gpu.begin(), on_gpu.end());
    else if (!on_gpu.empty())
      inside[""] = on_gpu;
    else
      return false;
    if (others.empty() && ended.empty() && unseen.empty() && on_gpu.empty() && all_nap(inside)) {
      note_short_waits(inside);
      return true;
    }
    if (others.empty() && inside.size() > 1) {
      blame_order(inside);
      return true;
    }
    // The largest group of those that wait; with equal sizes, that with the longest wait.
    const auto largest =
        std::ranges::max_element(inside, {}, [](const auto& group) { return group.second.size(); });
    const auto& waiters = largest->second;
    report_.waiting = numbers_of(waiters);
    report_.collective = largest->first;
    if (!others.empty())
      blame_others(waiters, others);
    else if (!ended.empty())
      blame_ended(waiters, ended);
    else if (!unseen.empty())
      blame_unseen(waiters, unseen);
    else if (largest->first.empty())
      blame_gpus(waiters);
    else
      blame_none(waiters);
    return true;
  }

  void blame_others(const std::vector<const Seen*>& waiters, std::vector<const Seen*> others) {
    // A rank that cannot run explains more than one that computes.
    if (std::ranges::any_of(others, [](const Seen* rank) { return cannot_run(rank->place); }))
      std::erase_if(others, [](const Seen* rank) { return !cannot_run(rank->place); });
    blame(others);
    auto words = describe(others);
    const auto name = name_of(others);
    if (words.starts_with("it is ")) words = name + " is " + words.substr(6);
    if (words.starts_with("they are ")) words = name + " are " + words.substr(9);
    report_.text = fmt::format("{}; {}{}", waiters_words(waiters), words.empty() ? name : words,
                               loop_words(others));
  }

  void blame_ended(const std::vector<const Seen*>& waiters, const std::vector<const Seen*>& ended) {
    blame(ended);
    report_.text = fmt::format("{}; {} {} ended ({})", waiters_words(waiters), name_of(ended),
                               ended.size() == 1 ? "has" : "have", ended.front()->facts->ended);
  }

  void blame_unseen(const std::vector<const Seen*>& waiters,
                    const std::vector<const Seen*>& unseen) {
    report_.blamed = numbers_of(unseen);
    report_.kind = HangKind::hangs;
    report_.text = fmt::format("{}; what {} {} could not be seen", waiters_words(waiters),
                               name_of(unseen), unseen.size() == 1 ? "does" : "do");
  }

  static bool all_nap(const std::map<std::string, std::vector<const Seen*>>& inside) {
    return std::ranges::all_of(inside, [](const auto& group) {
      return std::ranges::all_of(group.second, [](const Seen* rank) { return rank->place.naps; });
    });
  }

  // Returns "ranks 0-2 are in all_reduce, called from train.py:88; rank 3 is in barrier".
  std::string groups_text(const std::vector<std::vector<const Seen*>>& groups) const {
    std::string text;
    for (std::size_t index = 0; index < groups.size() && index <= kMostDescribed; ++index)
      text += fmt::format("{}{} {} in {}", index == 0 ? "" : "; ", name_of(groups[index]),
                          groups[index].size() == 1 ? "is" : "are", call_words(*groups[index][0]));
    return text;
  }

  // All are in collectives, and each has been woken many times between the looks.
  void note_short_waits(const std::map<std::string, std::vector<const Seen*>>& inside) {
    std::vector<std::vector<const Seen*>> groups;
    for (const auto& [function, ranks] : inside) groups.push_back(ranks);
    report_.kind = HangKind::slow;
    report_.text = groups_text(groups) + "; they wake often: the job probably continues";
  }

  // All are in a collective, and not in the same one.
  void blame_order(const std::map<std::string, std::vector<const Seen*>>& inside) {
    std::vector<std::vector<const Seen*>> groups;
    for (const auto& [function, ranks] : inside) groups.push_back(ranks);
    std::ranges::stable_sort(groups, std::greater<>(), &std::vector<const Seen*>::size);
    const auto most = groups.front().size();
    std::vector<const Seen*> blamed;
    for (const auto& group : groups)
      if (group.size() < most || groups.back().size() == most)
        blamed.insert(blamed.end(), group.begin(), group.end());
    blame(blamed);
    report_.waiting = numbers_of(groups.front());
    report_.collective = groups.front().front()->place.collective;
    report_.text = groups_text(groups) + ": they wait for each other";
  }

  // All are in the same one. Different lines, or a rank that hardly runs, may be the reason.
  void blame_none(const std::vector<const Seen*>& waiters) {
    report_.kind = std::ranges::any_of(waiters, [](const Seen* rank) { return rank->place.moves; })
                       ? HangKind::slow
                       : HangKind::hangs;
    std::map<std::string, std::vector<const Seen*>> lines;
    for (const auto* rank : waiters) lines[rank->place.called_from].push_back(rank);
    std::vector<const Seen*> noted;
    std::ranges::copy_if(waiters, std::back_inserter(noted),
                         [](const Seen* rank) { return !rank->place.note.empty(); });
    const auto who = waiters.size() == 1 ? name_of(waiters)
                                         : fmt::format("all {}", plural(waiters.size(), "rank"));
    if (!noted.empty() && noted.size() < waiters.size()) {
      report_.blamed = numbers_of(noted);
      report_.text = fmt::format("{} are in {}; of {}: {}", who, call_words(*waiters[0]),
                                 name_of(noted), noted[0]->place.note);
      return;
    }
    if (lines.size() > 1) {
      const auto fewest =
          std::ranges::min_element(lines, {}, [](const auto& line) { return line.second.size(); });
      const auto most =
          std::ranges::max_element(lines, {}, [](const auto& line) { return line.second.size(); });
      const bool tie = fewest->second.size() == most->second.size();
      report_.blamed = numbers_of(tie ? waiters : fewest->second);
      report_.text = fmt::format("{} are in {}, from different lines: {} from {}, {} from {}", who,
                                 waiters[0]->place.collective, name_of(most->second), most->first,
                                 name_of(tie ? std::next(lines.begin())->second : fewest->second),
                                 tie ? std::next(lines.begin())->first : fewest->first);
      if (waiters[0]->place.pairwise) report_.text += ": each may wait for another one's message";
      return;
    }
    report_.blamed = numbers_of(waiters);
    report_.text = fmt::format(
        "{} {} in {}; {}", who, waiters.size() == 1 ? "is" : "are", call_words(*waiters[0]),
        waiters[0]->place.pairwise ? "each waits for another one's message, and none sends it"
                                   : "none is missing: they may have given it other shapes or "
                                     "types, or the network does not carry it");
  }

  // All wait for their GPUs. What those do is not seen.
  void blame_gpus(const std::vector<const Seen*>& waiters) {
    report_.kind = HangKind::slow;
    std::map<std::string, std::vector<const Seen*>> lines;
    for (const auto* rank : waiters) lines[rank->place.where].push_back(rank);
    const auto fewest =
        std::ranges::min_element(lines, {}, [](const auto& line) { return line.second.size(); });
    if (2 * fewest->second.size() < waiters.size()) report_.blamed = numbers_of(fewest->second);
    report_.text = lines.size() == 1 ? waiters_words(waiters) : summary(waiters);
    report_.text += waiters.size() == 1
                        ? "; the GPU is slow, or its work has no end"
                        : "; a GPU computes, or a rank has not come to a collective of the others";
    const auto silent = find_all(facts_.nccl.silent);
    if (silent.empty()) return;
    report_.blamed = numbers_of(silent);
    report_.text += fmt::format("; {} {} not answer NCCL's RAS", name_of(silent),
                                silent.size() == 1 ? "does" : "do");
  }

  // ---- without collectives

  void judge_places() {
    std::vector<const Seen*> alive;
    std::vector<const Seen*> still;  // stopped, in a debugger, frozen
    std::vector<const Seen*> noted;  // with a child that has ended, or the like
    std::vector<const Seen*> waits;
    for (const auto& rank : seen_) {
      if (!rank.facts->ended.empty() || rank.place.doing == Doing::unknown) continue;
      alive.push_back(&rank);
      if (cannot_run(rank.place))
        still.push_back(&rank);
      else if (!rank.place.note.empty())
        noted.push_back(&rank);
      if (rank.place.doing == Doing::waits && !rank.place.moves && !rank.place.naps)
        waits.push_back(&rank);
    }
    if (alive.empty()) {
      report_.text = "nothing could be seen of the ranks";
      return;
    }
    if (!still.empty()) return name_places(still);
    if (waits.empty()) {
      report_.kind = HangKind::moves;
      report_.text = (brief_ ? "no rank has waited long in a collective; "
                             : "no rank is in a collective or waits for another one; ") +
                     summary(alive);
      return;
    }
    if (!noted.empty() && noted.size() < alive.size()) return name_places(noted);
    // Some compute, and others wait for something that is no collective which is known here.
    if (const auto odd = outliers(alive); !odd.empty()) return name_places(odd);
    name_places(waits);
  }

  // Returns the ranks at places where few are, if most are at one.
  static std::vector<const Seen*> outliers(const std::vector<const Seen*>& ranks) {
    std::map<std::string, std::vector<const Seen*>> places;
    for (const auto* rank : ranks)
      places[rank->place.where.empty() ? key_of(rank->place) : rank->place.where].push_back(rank);
    const auto largest =
        std::ranges::max_element(places, {}, [](const auto& place) { return place.second.size(); });
    if (places.size() < 2 || 2 * largest->second.size() <= ranks.size()) return {};
    std::vector<const Seen*> odd;
    for (const auto& [where, there] : places)
      if (&there != &largest->second) odd.insert(odd.end(), there.begin(), there.end());
    return odd;
  }

  std::string summary(const std::vector<const Seen*>& ranks) const {
    auto words = describe(ranks);
    const auto name = name_of(ranks);
    if (words.starts_with("it is ")) return name + " is " + words.substr(6);
    if (words.starts_with("they are ")) return name + " are " + words.substr(9);
    return words;
  }

  void name_places(const std::vector<const Seen*>& ranks) {
    blame(ranks);
    for (const auto& rank : seen_)
      if (rank.facts->ended.empty() &&
          std::ranges::find(report_.blamed, rank.facts->rank) == report_.blamed.end())
        report_.waiting.push_back(rank.facts->rank);
    report_.text = summary(ranks);
    if (!report_.waiting.empty() && report_.waiting.size() + ranks.size() <= seen_.size()) {
      const auto rest = find_all(report_.waiting);
      if (const auto words = summary(rest); !words.empty()) report_.text += "; " + words;
    }
    add_ended(ranks.size());
  }

  // Ranks that have left may be those that the others wait for. If they are fewer, they are.
  void add_ended(std::size_t others) {
    std::vector<const Seen*> ended;
    for (const auto& rank : seen_)
      if (!rank.facts->ended.empty()) ended.push_back(&rank);
    if (ended.empty()) return;
    report_.text += fmt::format("; {} {} ended ({})", name_of(ended),
                                ended.size() == 1 ? "has" : "have", ended.front()->facts->ended);
    if (ended.size() >= others + report_.waiting.size()) return;
    report_.waiting.insert(report_.waiting.end(), report_.blamed.begin(), report_.blamed.end());
    std::sort(report_.waiting.begin(), report_.waiting.end());
    report_.blamed = numbers_of(ended);
  }

  const HangFacts& facts_;
  std::vector<CollectiveWait> waits_;  // of libhvd, or else of NCCL
  bool is_of_nccl_ = false;
  bool brief_ = false;  // a rank is in a collective, and has not waited long there
  std::vector<Seen> seen_;
  bool several_hosts_ = false;
  HangReport report_;
};

}  // namespace

HangReport judge_hang(const HangFacts& facts) {
  return Judge(facts).judge();
}

}  // namespace hvdrun
