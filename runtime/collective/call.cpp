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

constexpr std::uint64_t kOnDevice = 0xd1b54a32d192ed03u;

std::uint64_t hash_shape(const std::string& shape) {
  return shape.empty() ? 0 : std::rotl(hash_name(shape), 17);
}

std::uint64_t hash_call(const Call& call) {
  return call.name_hash ^ hash_scale(call.scale) ^ hash_shape(call.shape) ^
         (call.on_device ? kOnDevice : 0);
}

bool may_differ_in_count(Collective kind) {
  return kind == Collective::allgather || kind == Collective::alltoall;
}

std::string quoted_name(const CallRecord& record) {
  if (record.name_hash == 0) return "none";
  return '"' + std::string(field_text(record.name)) + '"';
}

std::vector<int> numbers_of(Records records, const std::vector<int>& ranks) {
  std::vector<int> numbers;
  for (const int rank : ranks) numbers.push_back(records[static_cast<std::size_t>(rank)]->rank);
  return numbers;
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
    text += separator + show(record) + " on " + describe_ranks(numbers_of(records, ranks));
    separator = " and ";
  }
}

std::optional<Error> find_fault(Records records) {
  std::string text;
  for (const CallRecord* record : records) {
    const auto fault = field_text(record->fault);
    if (fault.empty()) continue;
    text += text.empty() ? describe_call(*record) + ": " : "; ";
    text += "rank " + std::to_string(record->rank) + ": " + std::string(fault);
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
  describe_difference(
      records, "the memory", [](const CallRecord& record) { return record.on_device; },
      [](const CallRecord& record) { return std::string(record.on_device ? "cuda" : "host"); },
      text);
  number("the root", &CallRecord::root);
  const bool group = first.kind == Collective::group;
  const bool news = first.kind == Collective::news;
  const char* const count = news    ? "HVD_FUSION_THRESHOLD"
                            : group ? "the number of tensors"
                                    : "the count";
  if (!may_differ_in_count(first.kind)) number(count, &CallRecord::count);
  describe_difference(
      records, "the shape", [](const CallRecord& record) { return record.shape_hash; },
      [](const CallRecord& record) {
        return record.shape_hash == 0 ? "not told" : std::string(field_text(record.shape));
      },
      text);
  if (!group) number(news ? "HVD_CACHE_CAPACITY" : "the row size", &CallRecord::row_size);
  factor("the factor before", &CallRecord::before);
  factor("the factor after", &CallRecord::after);
  if (text.empty() && group) {
    describe_difference(
        records, "the list of counts", [](const CallRecord& record) { return record.row_size; },
        [&](const CallRecord& record) {
          return std::string(record.row_size == first.row_size ? "one" : "another");
        },
        text);
  }
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_MISMATCH, describe_call(first) + ": the ranks do not agree: " + text);
}

std::optional<Error> find_small_output(Records records) {
  std::string text;
  std::uint64_t said = 0;
  for (const CallRecord* record : records) {
    const std::uint64_t room = record->output_rows;
    const std::uint64_t needed = record->needed_rows;
    if (room >= needed) continue;
    text += text.empty() ? "" : ", ";
    if (needed != said) text += std::to_string(needed) + " rows come, but there is room for ";
    text += std::to_string(room) + " on rank " + std::to_string(record->rank);
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
    case Collective::group:
      return "grouped_allreduce";
    case Collective::join:
      return "join";
    case Collective::news:
      return "news";
  }
  return "unknown";
}

Call make_call(Collective kind, const CallOptions& options) {
  Call call{.kind = kind};
  call.scale = options.scale;
  call.name = options.name;
  call.name_hash = options.name_hash;
  if (call.name_hash == 0 && call.name != nullptr) call.name_hash = hash_name(call.name);
  call.shape = options.shape.substr(0, kShapeBytes - 1);  // what a record has room for
  call.fault = options.fault;
  return call;
}

CallFacts facts_of(const Call& call) {
  CallFacts facts;
  const bool has_rows = call.kind == Collective::allgather ||
                        call.kind == Collective::reducescatter || call.kind == Collective::alltoall;
  const bool has_data =
      has_rows || call.kind == Collective::allreduce || call.kind == Collective::broadcast;
  if (!has_data || !call.fault.empty()) return facts;
  facts.bytes = call.count * (has_rows ? call.row_size : 1) * element_size(call.type);
  facts.type = static_cast<std::uint8_t>(call.type);
  if (call.kind == Collective::allreduce || call.kind == Collective::reducescatter)
    facts.op = static_cast<std::uint8_t>(call.op);
  return facts;
}

CallBrief make_brief(const Call& call) {
  return {.kind = static_cast<std::uint8_t>(call.kind),
          .type = static_cast<std::uint8_t>(call.type),
          .op = static_cast<std::uint8_t>(call.op),
          .faulty = !call.fault.empty(),
          .root = call.root,
          .count = may_differ_in_count(call.kind) ? 0 : call.count,
          .row_size = call.row_size,
          .hash = hash_call(call)};
}

CallRecord make_record(const Call& call, int rank) {
  CallRecord record{};
  record.rank = rank;
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
  record.on_device = call.on_device;
  record.name_hash = call.name_hash;
  record.shape_hash = hash_shape(call.shape);
  if (call.name != nullptr) copy_text(record.name, call.name);
  copy_text(record.shape, call.shape);
  copy_text(record.fault, call.fault);
  return record;
}

std::string describe_call(const CallRecord& record) {
  std::string text = collective_name(record.kind);
  if (record.name_hash != 0) text += " " + quoted_name(record);
  return text;
}

std::optional<Error> find_disagreement(Records records) {
  if (auto fault = find_fault(records)) return fault;
  if (auto other = find_other_collective(records)) return other;
  if (auto difference = find_difference(records)) return difference;
  return find_small_output(records);
}

std::optional<Error> find_disagreement_with_joined(Records records) {
  std::vector<const CallRecord*> callers;
  std::vector<int> joined;
  for (const CallRecord* record : records) {
    if (record->kind == Collective::join) {
      joined.push_back(record->rank);
    } else {
      callers.push_back(record);
    }
  }
  if (auto error = find_disagreement(callers)) return error;
  const CallRecord& first = *callers.front();
  const bool neutral_zeros = first.op == HVD_SUM || first.op == HVD_AVERAGE;
  const bool reduces = first.kind == Collective::allreduce || first.kind == Collective::group;
  if (reduces && neutral_zeros && !first.on_device) return std::nullopt;
  return fail(HVD_ERROR_INVALID_ARGUMENT,
              describe_call(first) + ": " + describe_ranks(joined) +
                  (joined.size() == 1 ? " has" : " have") +
                  " joined, with which only an allreduce with sum or average can go on");
}

}  // namespace libhvd
