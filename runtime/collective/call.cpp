#include "collective/call.hpp"

#include "base/text.hpp"
#include "collective/element.hpp"

#include <bit>
#include <vector>

namespace libhvd {
namespace {

using Records = std::span<const CallRecord* const>;

std::uint64_t hash_scale(const Scale& scale) {
  if (!scale.any()) return 0;
  const auto before = std::bit_cast<std::uint64_t>(scale.before);
  return std::rotl(before * 0x9e3779b97f4a7c15u, 31) ^ std::bit_cast<std::uint64_t>(scale.after);
}

bool may_differ_in_count(Collective kind) {
  return kind == Collective::allgather || kind == Collective::alltoall;
}

std::string quoted_name(const CallRecord& record) {
  if (record.name_hash == 0) return "none";
  return '"' + std::string(field_text(record.name)) + '"';
}

// "count is 10 on ranks 0-1,3 and 12 on rank 2".
template <class Value, class Show>
void describe_difference(Records records, const char* field, Value value, Show show,
                         std::string& text) {
  std::vector<std::pair<decltype(value(*records[0])), std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const auto own = value(*records[rank]);
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
    const auto& record = *records[static_cast<std::size_t>(ranks.front())];
    text += separator + show(record) + " on " + describe_ranks(ranks);
    separator = " and ";
  }
}

std::optional<Error> find_fault(Records records) {
  std::string text;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const auto fault = field_text(records[rank]->fault);
    if (fault.empty()) continue;
    text += text.empty() ? describe_call(*records[rank]) + ": " : "; ";
    text += "rank " + std::to_string(rank) + ": " + std::string(fault);
  }
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_INVALID_ARGUMENT, text);
}

std::optional<Error> find_other_collective(Records records) {
  std::string text;
  describe_difference(
      records, "the call", [](const CallRecord& record) { return record.kind; }, describe_call,
      text);
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_MISMATCH, "the ranks have called different collectives: " + text);
}

std::optional<Error> find_difference(Records records) {
  const CallRecord& first = *records[0];
  std::string text;
  const auto number = [&](const char* field, auto member) {
    describe_difference(
        records, field, [=](const CallRecord& record) { return record.*member; },
        [=](const CallRecord& record) { return std::to_string(record.*member); }, text);
  };
  const auto factor = [&](const char* field, auto member) {
    describe_difference(
        records, field, [=](const CallRecord& record) { return record.*member; },
        [=](const CallRecord& record) { return std::to_string(record.*member); }, text);
  };
  describe_difference(
      records, "the name", [](const CallRecord& record) { return record.name_hash; }, quoted_name,
      text);
  describe_difference(
      records, "the type", [](const CallRecord& record) { return record.type; },
      [](const CallRecord& record) { return std::string(type_name(record.type)); }, text);
  describe_difference(
      records, "the op", [](const CallRecord& record) { return record.op; },
      [](const CallRecord& record) { return std::string(op_name(record.op)); }, text);
  number("the root", &CallRecord::root);
  if (!may_differ_in_count(first.kind)) number("the count", &CallRecord::count);
  number("the row size", &CallRecord::row_size);
  factor("the factor before", &CallRecord::before);
  factor("the factor after", &CallRecord::after);
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_MISMATCH, describe_call(first) + ": the ranks do not agree: " + text);
}

std::optional<Error> find_small_output(Records records) {
  std::string text;
  std::uint64_t said = 0;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const std::uint64_t room = records[rank]->output_rows;
    const std::uint64_t needed = records[rank]->needed_rows;
    if (room >= needed) continue;
    text += text.empty() ? "" : ", ";
    if (needed != said) text += std::to_string(needed) + " rows come, but there is room for ";
    text += std::to_string(room) + " on rank " + std::to_string(rank);
    said = needed;
  }
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_INVALID_ARGUMENT,
              describe_call(*records[0]) + ": the output is too small: " + text);
}

}  // namespace

std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : name) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  return hash == 0 ? 1 : hash;
}

const char* collective_name(Collective kind) {
  switch (kind) {
    case Collective::allreduce:
      return "allreduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::allgather:
      return "allgather";
    case Collective::barrier:
      return "barrier";
    case Collective::reducescatter:
      return "reducescatter";
    case Collective::alltoall:
      return "alltoall";
    case Collective::news:
      return "news";
  }
  return "unknown";
}

CallBrief make_brief(const Call& call) {
  return {.kind = static_cast<std::uint8_t>(call.kind),
          .type = static_cast<std::uint8_t>(call.type),
          .op = static_cast<std::uint8_t>(call.op),
          .faulty = !call.fault.empty(),
          .root = call.root,
          .count = may_differ_in_count(call.kind) ? 0 : call.count,
          .row_size = call.row_size,
          .hash = (call.name == nullptr ? 0 : hash_name(call.name)) ^ hash_scale(call.scale)};
}

CallRecord make_record(const Call& call) {
  CallRecord record{};
  record.kind = call.kind;
  record.type = call.type;
  record.op = call.op;
  record.root = call.root;
  record.count = call.count;
  record.row_size = call.row_size;
  record.output_rows = call.output_rows;
  record.needed_rows = call.needed_rows;
  record.before = call.scale.before;
  record.after = call.scale.after;
  if (call.name != nullptr) {
    record.name_hash = hash_name(call.name);
    copy_text(record.name, call.name);
  }
  copy_text(record.fault, call.fault);
  return record;
}

std::string describe_call(const CallRecord& record) {
  std::string text = collective_name(record.kind);
  if (record.name_hash != 0) text += " " + quoted_name(record);
  return text;
}

Error find_disagreement(std::span<const CallRecord* const> records) {
  if (auto fault = find_fault(records)) return *fault;
  if (auto other = find_other_collective(records)) return *other;
  if (auto difference = find_difference(records)) return *difference;
  if (auto small = find_small_output(records)) return *small;
  return fail(HVD_ERROR_MISMATCH, describe_call(*records[0]) + ": the ranks do not agree");
}

}  // namespace libhvd
