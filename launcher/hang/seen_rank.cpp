#include "hang/seen_rank.hpp"

#include "common/text.hpp"

#include <string_view>
#include <utility>

namespace hvdrun {
namespace {

// A wait in a collective of libhvd that is shorter may be one of many.
constexpr double kLeastWait = 1;

bool is_more_telling(const RankPlace& one, const RankPlace& other) {
  if (cannot_run(one) != cannot_run(other)) return cannot_run(one);
  // A worker that is in no collective is the one that the others wait for.
  return other.doing == Doing::in_collective && one.doing != Doing::in_collective &&
         one.doing != Doing::unknown;
}

}  // namespace

Seen see(const RankFacts& facts) {
  Seen seen{&facts, {}};
  for (const auto& look : facts.looks) {
    auto place = place_of(look);
    if (seen.place.doing == Doing::unknown || is_more_telling(place, seen.place))
      seen.place = std::move(place);
  }
  return seen;
}

bool cannot_run(const RankPlace& place) {
  return place.doing == Doing::stopped || place.doing == Doing::traced ||
         place.doing == Doing::frozen;
}

bool passes_through(const Seen& rank) {
  const auto& facts = *rank.facts;
  const bool is_known = facts.calls > 0 || !facts.collective.empty() || !facts.background.empty();
  return rank.place.in_libhvd && is_known && facts.waited < kLeastWait;
}

std::string words_of(const Seen& rank) {
  if (!rank.facts->ended.empty()) return "";
  const auto& place = rank.place;
  std::string text;
  const auto add = [&text](const std::string& words) {
    if (!words.empty()) text += (text.empty() ? "" : ", ") + words;
  };
  if (!rank.facts->collective.empty()) {
    add("in " + title_of(rank.facts->collective));
    if (!place.called_from.empty()) add("called from " + place.called_from);
  } else if (place.doing == Doing::in_collective) {
    add("in " + place.collective);
    if (!place.called_from.empty()) add("called from " + place.called_from);
  } else if (!place.where.empty()) {
    add("in " + place.where);
  }
  if (rank.facts->collective.empty() || place.doing != Doing::waits) add(place.state);
  add(place.note);
  return text;
}

std::string key_of(const RankPlace& place) {
  auto state = place.state.substr(0, place.state.find_first_of("0123456789"));
  if (state.ends_with(" for ")) state.resize(state.size() - std::string_view(" for ").size());
  return place.where + "\n" + place.collective + "\n" + state;
}

std::string title_of(const std::string& collective) {
  const auto space = collective.find(' ');
  if (space == std::string::npos) return collective;
  return collective.substr(0, space) + " " + quote(collective.substr(space + 1));
}

}  // namespace hvdrun
