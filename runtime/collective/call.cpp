#include "collective/call.hpp"

#include "collective/element.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace libhvd {
namespace {

using Records = std::span<const CallDetails* const>;

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

std::string quoted_name(const CallDetails& details) {
  if (details.name_hash == 0) return "none";
  return '"' + std::string(field_text(details.name)) + '"';
}

std::vector<int> numbers_of(Records all_details, const std::vector<int>& ranks) {
  std::vector<int> numbers;
  for (const int rank : ranks) numbers.push_back(all_details[static_cast<std::size_t>(rank)]->rank);
  return numbers;
}

// "count is 10 on ranks 0-1,3 and 12 on rank 2".
template <class Value, class Show>
void describe_difference(Records all_details, const char* field, Value value, Show show,
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

std::optional<Error> find_fault(Records all_details) {
  std::string text;
  for (const CallDetails* details : all_details) {
    const auto fault = field_text(details->fault);
    if (fault.empty()) continue;
    text += text.empty() ? describe_call(*details) + ": " : "; ";
    text += "rank " + std::to_string(details->rank) + ": " + std::string(fault);
  }
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_INVALID_ARGUMENT, text);
}

std::optional<Error> find_other_collective(Records all_details) {
  std::string text;
  describe_difference(
      all_details, "the call", [](const CallDetails& details) { return details.kind; },
      describe_call, text);
  if (text.empty()) return std::nullopt;
  return fail(HVD_ERROR_MISMATCH, "the ranks have called different collectives: " + text);
}

std::optional<Error> find_difference(Records all_details) {
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
  number("the root", &CallDetails::root);
  const bool group = first.kind == Collective::group;
  const bool proposals = first.kind == Collective::proposals;
  const char* const count = proposals ? "HVD_FUSION_THRESHOLD"
                            : group   ? "the number of tensors"
                                      : "the count";
  if (!may_differ_in_count(first.kind)) number(count, &CallDetails::count);
  describe_difference(
      all_details, "the shape", [](const CallDetails& details) { return details.shape_hash; },
      [](const CallDetails& details) {
        return details.shape_hash == 0 ? "not told" : std::string(field_text(details.shape));
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

std::optional<Error> find_small_output(Records all_details) {
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

std::string check_type(hvd_type type) {
  if (element_size(type) != 0) return {};
  return "the type " + std::to_string(type) + " is none of HVD_UINT8, HVD_INT8, …";
}

std::string check_reduction(hvd_type type, hvd_op op) {
  if (auto fault = check_type(type); !fault.empty()) return fault;
  if (!op_exists(op)) {
    return "the op " + std::to_string(op) + " is none of HVD_AVERAGE, HVD_SUM, …";
  }
  if (type == HVD_BOOL && op == HVD_AVERAGE) return "there is no average of bool";
  if (op == HVD_ADASUM && !is_floating_point(type))
    return std::string("Adasum is for floating point types, not for ") + type_name(type);
  return {};
}

std::string check_count(std::size_t count) {
  if (count <= kMostElements) return {};
  return "the count " + std::to_string(count) + " is more than any memory holds";
}

std::string check_rows(std::size_t rows, std::size_t row_size, hvd_type type) {
  if (row_size == 0 || rows <= kMostBytes / element_size(type) / row_size) return {};
  return std::to_string(rows) + " rows of " + std::to_string(row_size) +
         " elements are more than any memory holds";
}

std::string check_buffer(const char* what, const void* buffer, std::size_t count) {
  if (buffer != nullptr || count == 0) return {};
  return std::string("the ") + what + " is null with a count of " + std::to_string(count);
}

Call rows_call(Collective kind, std::size_t rows, std::size_t row_size, hvd_type type,
               const CallOptions& options) {
  Call call = make_call(kind, options);
  call.type = type;
  call.count = rows;
  call.row_size = row_size;
  return call;
}

// Says how much room there is.
void set_room(Call& call, const void* output, std::size_t output_rows, const Allocator& allocator) {
  call.output_rows = allocator ? kAnyRoom : output_rows;
  if (call.fault.empty() && allocator && (output != nullptr || output_rows != 0))
    call.fault = "there is an output, and hvd_options.allocate for another one";
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
    case Collective::proposals:
      return "proposals";
  }
  return "unknown";
}

Call make_call(Collective kind, const CallOptions& options) {
  Call call{.kind = kind};
  call.scale = options.scale;
  call.name = options.name;
  call.name_hash = options.name_hash;
  if (call.name_hash == 0 && call.name != nullptr) call.name_hash = hash_name(call.name);
  call.shape = options.shape.substr(0, kShapeBytes - 1);  // what a details has room for
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

CallHeader make_call_header(const Call& call) {
  return {.kind = static_cast<std::uint8_t>(call.kind),
          .type = static_cast<std::uint8_t>(call.type),
          .op = static_cast<std::uint8_t>(call.op),
          .faulty = !call.fault.empty(),
          .root = call.root,
          .count = may_differ_in_count(call.kind) ? 0 : call.count,
          .row_size = call.row_size,
          .hash = hash_call(call)};
}

CallDetails make_call_details(const Call& call, int rank) {
  CallDetails details{};
  details.rank = rank;
  details.kind = call.kind;
  details.type = call.type;
  details.op = call.op;
  details.root = call.root;
  details.count = call.count;
  details.row_size = call.row_size;
  details.output_rows = call.output_rows;
  details.needed_rows = call.needed_rows;
  details.before = call.scale.before;
  details.after = call.scale.after;
  details.on_device = call.on_device;
  details.name_hash = call.name_hash;
  details.shape_hash = hash_shape(call.shape);
  if (call.name != nullptr) copy_text(details.name, call.name);
  copy_text(details.shape, call.shape);
  copy_text(details.fault, call.fault);
  return details;
}

std::string describe_call(const CallDetails& details) {
  std::string text = collective_name(details.kind);
  if (details.name_hash != 0) text += " " + quoted_name(details);
  return text;
}

std::optional<Error> find_disagreement(Records all_details) {
  if (auto fault = find_fault(all_details)) return fault;
  if (auto other = find_other_collective(all_details)) return other;
  if (auto difference = find_difference(all_details)) return difference;
  return find_small_output(all_details);
}

std::optional<Error> find_disagreement_with_joined(Records all_details) {
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
  if (reduces && neutral_zeros && !first.on_device) return std::nullopt;
  return fail(HVD_ERROR_INVALID_ARGUMENT,
              describe_call(first) + ": " + describe_ranks(joined) +
                  (joined.size() == 1 ? " has" : " have") +
                  " joined, with which only an allreduce with sum or average can go on");
}

Output find_output(const Call& call, void* given, const Allocator& allocator, const void* input,
                   std::size_t row_bytes) {
  if (!allocator) return {static_cast<std::byte*>(given)};
  void* const memory = allocator.allocate(allocator.context, call.needed_rows);
  const std::size_t bytes = call.needed_rows * row_bytes;
  if (bytes == 0) return {};
  if (memory == nullptr)
    return unusable_output(call, "no memory: hvd_options.allocate gave none for " +
                                     std::to_string(call.needed_rows) + " rows");
  if (overlap(input, call.count * row_bytes, memory, bytes))
    return unusable_output(call, "hvd_options.allocate gave memory that overlaps with the input");
  return {static_cast<std::byte*>(memory)};
}

Output unusable_output(const Call& call, const std::string& why) {
  return {nullptr,
          with_context(describe_call(make_call_details(call, 0)), fail(HVD_ERROR_SYSTEM, why))};
}

std::string check_allreduce(const void* input, const void* output, std::size_t count, hvd_type type,
                            hvd_op op) {
  if (auto fault = check_reduction(type, op); !fault.empty()) return fault;
  if (auto fault = check_count(count); !fault.empty()) return fault;
  if (auto fault = check_buffer("input", input, count); !fault.empty()) return fault;
  if (auto fault = check_buffer("output", output, count); !fault.empty()) return fault;
  const std::size_t bytes = count * element_size(type);
  if (input != output && overlap(input, bytes, output, bytes)) {
    return "input and output overlap but are not the same buffer";
  }
  return {};
}

std::string check_broadcast(const void* buffer, std::size_t count, hvd_type type, int root,
                            int size) {
  if (auto fault = check_type(type); !fault.empty()) return fault;
  if (root < 0 || root >= size) {
    return "the root " + std::to_string(root) + " is not a rank of 0 to " +
           std::to_string(size - 1);
  }
  if (auto fault = check_count(count); !fault.empty()) return fault;
  return check_buffer("buffer", buffer, count);
}

std::string check_allgather(const void* input, std::size_t rows, std::size_t row_size,
                            hvd_type type, const void* output, std::size_t output_rows) {
  if (auto fault = check_type(type); !fault.empty()) return fault;
  if (auto fault = check_count(row_size); !fault.empty()) return fault;
  if (row_size == 0) return {};
  if (auto fault = check_rows(std::max(rows, output_rows), row_size, type); !fault.empty())
    return fault;
  if (auto fault = check_buffer("input", input, rows); !fault.empty()) return fault;
  if (auto fault = check_buffer("output", output, output_rows); !fault.empty()) return fault;
  const std::size_t row_bytes = row_size * element_size(type);
  if (overlap(input, rows * row_bytes, output, output_rows * row_bytes)) {
    return "input and output overlap";
  }
  return {};
}

std::string check_reducescatter(const void* input, std::size_t rows, std::size_t row_size,
                                hvd_type type, hvd_op op, const void* output,
                                std::size_t own_rows) {
  if (auto fault = check_reduction(type, op); !fault.empty()) return fault;
  if (op == HVD_ADASUM) return "Adasum is for allreduces";
  if (auto fault = check_count(row_size); !fault.empty()) return fault;
  if (auto fault = check_rows(rows, row_size, type); !fault.empty()) return fault;
  if (row_size == 0) return {};
  if (auto fault = check_buffer("input", input, rows); !fault.empty()) return fault;
  if (auto fault = check_buffer("output", output, own_rows); !fault.empty()) return fault;
  const std::size_t row_bytes = row_size * element_size(type);
  if (overlap(input, rows * row_bytes, output, own_rows * row_bytes))
    return "input and output overlap";
  return {};
}

std::string check_alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                           std::size_t row_size, hvd_type type, const void* output,
                           std::size_t output_rows, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  if (splits == nullptr && rows % ranks != 0)
    return std::to_string(rows) + " rows cannot be divided evenly among " + std::to_string(ranks) +
           " ranks, and there are no splits";
  std::size_t sum = 0;
  bool fits = true;
  for (std::size_t rank = 0; splits != nullptr && rank < ranks; ++rank) {
    fits = fits && splits[rank] <= rows - sum;
    if (fits) sum += splits[rank];
  }
  if (splits != nullptr && (!fits || sum != rows))
    return "the splits do not add up to the " + std::to_string(rows) + " rows";
  return check_allgather(input, rows, row_size, type, output, output_rows);
}

std::string check_scale(const Scale& scale, hvd_type type) {
  if (!scale.any()) return {};
  if (!std::isfinite(scale.before) || !std::isfinite(scale.after)) return "a factor is not finite";
  return type == HVD_BOOL ? "there are no factors for bool" : "";
}

Call allreduce_call(const void* input, const void* output, std::size_t count, hvd_type type,
                    hvd_op op, const CallOptions& options) {
  Call call = make_call(Collective::allreduce, options);
  call.type = type;
  call.op = op;
  call.count = count;
  if (call.fault.empty() && !allreduce_is_sound(input, output, count, type, op))
    call.fault = check_allreduce(input, output, count, type, op);
  if (call.fault.empty() && call.scale.any()) call.fault = check_scale(call.scale, type);
  return call;
}

Call broadcast_call(const void* buffer, std::size_t count, hvd_type type, int root, int size,
                    const CallOptions& options) {
  Call call = make_call(Collective::broadcast, options);
  call.type = type;
  call.root = root;
  call.count = count;
  if (call.fault.empty()) call.fault = check_broadcast(buffer, count, type, root, size);
  return call;
}

Call allgather_call(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                    const void* output, std::size_t output_rows, const CallOptions& options) {
  Call call = rows_call(Collective::allgather, rows, row_size, type, options);
  set_room(call, output, output_rows, options.allocator);
  if (call.fault.empty())
    call.fault = check_allgather(input, rows, row_size, type, output, output_rows);
  return call;
}

Call reducescatter_call(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                        hvd_op op, const void* output, std::size_t own_rows,
                        const CallOptions& options) {
  Call call = rows_call(Collective::reducescatter, rows, row_size, type, options);
  call.op = op;
  if (call.fault.empty())
    call.fault = check_reducescatter(input, rows, row_size, type, op, output, own_rows);
  if (call.fault.empty()) call.fault = check_scale(call.scale, type);
  return call;
}

Call alltoall_call(const void* input, const std::size_t* splits, std::size_t rows,
                   std::size_t row_size, hvd_type type, const void* output, std::size_t output_rows,
                   int size, const CallOptions& options) {
  Call call = rows_call(Collective::alltoall, rows, row_size, type, options);
  set_room(call, output, output_rows, options.allocator);
  if (call.fault.empty())
    call.fault = check_alltoall(input, splits, rows, row_size, type, output, output_rows, size);
  return call;
}

}  // namespace libhvd
