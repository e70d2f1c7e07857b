#include "collective/disagreement.hpp"

#include "collective/call.hpp"
#include "collective/element.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {
namespace {

using AllDetails = std::span<const CallDetails* const>;

std::vector<int> numbers_of(AllDetails all_details, const std::vector<int>& ranks) {
  std::vector<int> numbers;
  for (const int rank : ranks) numbers.push_back(all_details[static_cast<std::size_t>(rank)]->rank);
  return numbers;
}

// Appends "count is 10 on ranks 0-1,3 and 12 on rank 2" to the text, if the values differ.
template <class Value, class Show>
void describe_difference(AllDetails all_details, const char* field, Value value, Show show,
                         std::string& text) {
  std::vector<std::pair<decltype(value(*all_details[0])), std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < all_details.size(); ++rank) {
    const auto own = value(*all_details[rank]);
    auto group = groups.begin();
    while (group != groups.end() && group->first != own) ++group;
    if (group == groups.end()) group = groups.insert(groups.end(), {own, {}});
    group->second.push_back(static_cast<int>(rank));
  }
  if (groups.size() == 1) return;
  text += text.empty() ? "" : "; ";
  text += std::string(field) + " is ";
  const char* separator = "";
  for (const auto& [own, ranks] : groups) {
    const auto& details = *all_details[static_cast<std::size_t>(ranks.front())];
    text += separator + show(details) + " on " + describe_ranks(numbers_of(all_details, ranks));
    separator = " and ";
  }
}

// The message names a call without a fault, if there is one: a faulty rank may not know the call.
std::optional<Error> find_fault(AllDetails all_details) {
  const auto is_sound = [](const CallDetails* details) {
    return field_text(details->fault).empty();
  };
  const auto sound = std::find_if(all_details.begin(), all_details.end(), is_sound);
  const CallDetails& named = sound == all_details.end() ? *all_details[0] : **sound;
  std::string text;
  for (const CallDetails* details : all_details) {
    const auto fault = field_text(details->fault);
    if (fault.empty()) continue;
    text += text.empty() ? describe_call(named) + ": " : "; ";
    text += "rank " + std::to_string(details->rank) + ": " + std::string(fault);
  }
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_INVALID_ARGUMENT, text);
}

std::optional<Error> find_other_collective(AllDetails all_details) {
  std::string text;
  describe_difference(
      all_details, "the call", [](const CallDetails& details) { return details.kind; },
      describe_call, text);
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_MISMATCH, "the ranks have called different collectives: " + text);
}

std::optional<Error> find_difference(AllDetails all_details) {
  const CallDetails& first = *all_details[0];
  std::string text;
  const auto number = [&](const char* field, auto member) {
    describe_difference(
        all_details, field, [=](const CallDetails& details) { return details.*member; },
        [=](const CallDetails& details) { return std::to_string(details.*member); }, text);
  };
  const auto factor = [&](const char* field, auto member) {
    describe_difference(
        all_details, field, [=](const CallDetails& details) { return details.*member; },
        [=](const CallDetails& details) { return std::to_string(details.*member); }, text);
  };
  describe_difference(
      all_details, "the name", [](const CallDetails& details) { return details.name_hash; },
      quoted_name, text);
  describe_difference(
      all_details, "the type", [](const CallDetails& details) { return details.type; },
      [](const CallDetails& details) { return std::string(type_name(details.type)); }, text);
  describe_difference(
      all_details, "the op", [](const CallDetails& details) { return details.op; },
      [](const CallDetails& details) { return std::string(op_name(details.op)); }, text);
  describe_difference(
      all_details, "the memory", [](const CallDetails& details) { return details.on_device; },
      [](const CallDetails& details) { return std::string(details.on_device ? "cuda" : "host"); },
      text);
  describe_difference(
      all_details, "the compression",
      [](const CallDetails& details) { return details.compression; },
      [](const CallDetails& details) { return std::string(compression_name(details.compression)); },
      text);
  number("HVD_REPRODUCIBLE", &CallDetails::reproducible);
  const bool group = first.kind == Collective::group;
  const bool proposals = first.kind == Collective::proposals;
  number(proposals ? "HVD_FUSION_LARGEST" : "the root", &CallDetails::root);
  const char* const count = proposals ? "HVD_FUSION_THRESHOLD"
                            : group   ? "the number of tensors"
                                      : "the count";
  if (!may_differ_in_count(first.kind)) number(count, &CallDetails::count);
  describe_difference(
      all_details, "the shape", [](const CallDetails& details) { return details.shape_hash; },
      [](const CallDetails& details) {
        return details.shape_hash == 0 ? "not given" : std::string(field_text(details.shape));
      },
      text);
  if (!group) number(proposals ? "HVD_CACHE_CAPACITY" : "the row size", &CallDetails::row_size);
  factor("the factor before", &CallDetails::before);
  factor("the factor after", &CallDetails::after);
  if (text.empty() && group) {
    describe_difference(
        all_details, "the list of counts",
        [](const CallDetails& details) { return details.row_size; },
        [&](const CallDetails& details) {
          return std::string(details.row_size == first.row_size ? "one" : "another");
        },
        text);
  }
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_MISMATCH, describe_call(first) + ": the ranks do not agree: " + text);
}

std::optional<Error> find_small_output(AllDetails all_details) {
  std::string text;
  std::uint64_t said = 0;
  for (const CallDetails* details : all_details) {
    const std::uint64_t room = details->output_rows;
    const std::uint64_t needed = details->needed_rows;
    if (room >= needed) continue;
    text += text.empty() ? "" : ", ";
    if (needed != said) text += std::to_string(needed) + " rows come, but there is room for ";
    text += std::to_string(room) + " on rank " + std::to_string(details->rank);
    said = needed;
  }
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_INVALID_ARGUMENT,
              describe_call(*all_details[0]) + ": the output is too small: " + text);
}

}  // namespace

std::optional<Error> find_disagreement(AllDetails all_details) {
  if (auto fault = find_fault(all_details)) return fault;
  if (auto other = find_other_collective(all_details)) return other;
  if (auto difference = find_difference(all_details)) return difference;
  return find_small_output(all_details);
}

std::optional<Error> find_disagreement_with_joined(AllDetails all_details) {
  std::vector<const CallDetails*> callers;
  std::vector<int> joined;
  for (const CallDetails* details : all_details) {
    if (details->kind == Collective::join) {
      joined.push_back(details->rank);
    } else {
      callers.push_back(details);
    }
  }
  if (auto error = find_disagreement(callers)) return error;
  const CallDetails& first = *callers.front();
  const bool neutral_zeros = first.op == HVD_SUM || first.op == HVD_AVERAGE;
  const bool reduces = first.kind == Collective::allreduce || first.kind == Collective::group;
  if (reduces && neutral_zeros) return std::nullopt;
  return fail(HVD_ERROR_INVALID_ARGUMENT,
              describe_call(first) + ": " + describe_ranks(joined) +
                  (joined.size() == 1 ? " has" : " have") +
                  " joined, with which only an allreduce with sum or average can go on");
}

}  // namespace libhvd
