#include "agent/pmix_services.hpp"

#include "agent/pmix_directives.hpp"
#include "agent/pmix_queries.hpp"
#include "common/text.hpp"
#include "common/wire.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

static_assert(kPmixOutOfResource == PMIX_ERR_OUT_OF_RESOURCE &&
              kPmixPartialSuccess == PMIX_ERR_PARTIAL_SUCCESS &&
              kPmixDuplicateKey == PMIX_ERR_DUPLICATE_KEY);

// Keys that begin so are the standard's own; what a program publishes has others.
constexpr std::string_view kReserved = "pmix.";

struct Named {
  std::string key;
  std::string value;  // as libpmix packs it
};

// Returns the keys, without values.
std::vector<Named> named(char** keys) {
  std::vector<Named> names;
  for (; keys != nullptr && *keys != nullptr; ++keys) names.push_back({*keys, {}});
  return names;
}

std::vector<PublishedValue> values_of(const std::vector<Named>& names, pmix_rank_t rank) {
  std::vector<PublishedValue> values;
  for (const auto& one : names) values.push_back({rank, one.key, one.value});
  return values;
}

bool is_read_once(const pmix_info_t infos[], std::size_t count) {
  const auto* const value = find_value(infos, count, PMIX_PERSISTENCE);
  return value != nullptr && value->type == PMIX_PERSIST &&
         value->data.persist == PMIX_PERSIST_FIRST_READ;
}

// A host's part in the construction of a group: a number for the group u64 | size u32 | what its
// members share.
std::string pack_group_part(std::size_t number, std::string_view shared) {
  std::string part;
  common::wire::append(part, static_cast<std::uint64_t>(number));
  common::wire::append_bytes(part, shared);
  return part;
}

// The answer to libpmix about a new group. It lives until libpmix has read it.
class GroupResult {
 public:
  // `parts`: those of all hosts, in their order. The first host's number is the group's.
  GroupResult(std::string_view parts, std::vector<pmix_proc_t> members, bool with_number)
      : members_(std::move(members)) {
    common::wire::FieldReader fields(parts);
    std::uint64_t number = 0;
    std::string all_shared;
    while (!fields.empty()) {
      const auto offered = fields.take<std::uint64_t>();
      const auto shared = fields.bytes();
      if (!offered || !shared) break;
      if (number == 0) number = *offered;
      all_shared += *shared;
    }
    if (with_number) slot(PMIX_GROUP_CONTEXT_ID, PMIX_SIZE).size = number;
    array_ = {PMIX_PROC, members_.size(), members_.data()};
    slot(PMIX_GROUP_MEMBERSHIP, PMIX_DATA_ARRAY).darray = &array_;
    if (all_shared.empty()) return;
    auto& shared = slot(PMIX_GROUP_ENDPT_DATA, PMIX_BYTE_OBJECT).bo;
    shared.bytes = static_cast<char*>(std::malloc(all_shared.size()));
    shared.size = shared.bytes == nullptr ? 0 : all_shared.size();
    if (shared.bytes != nullptr) all_shared.copy(shared.bytes, shared.size);
  }
  // libpmix takes what the members share, and leaves a null pointer.
  ~GroupResult() {
    for (auto& info : infos_)
      if (info.value.type == PMIX_BYTE_OBJECT) std::free(info.value.data.bo.bytes);
  }
  GroupResult(const GroupResult&) = delete;
  GroupResult& operator=(const GroupResult&) = delete;

  // Hands it over to libpmix, which releases it.
  static void give(std::unique_ptr<GroupResult> result, pmix_info_cbfunc_t done, void* context) {
    auto* const given = result.release();
    done(
        PMIX_SUCCESS, given->infos_.data(), given->infos_.size(), context,
        [](void* released) { delete static_cast<GroupResult*>(released); }, given);
  }

 private:
  decltype(pmix_value_t::data)& slot(const char* key, pmix_data_type_t type) {
    auto& info = infos_.emplace_back();
    std::memset(&info, 0, sizeof info);
    std::strncpy(info.key, key, PMIX_MAX_KEYLEN);
    info.value.type = type;
    return info.value.data;
  }

  std::vector<pmix_info_t> infos_;
  std::vector<pmix_proc_t> members_;
  pmix_data_array_t array_{};
};

}  // namespace

PmixServices::PmixServices(const EventLoop& loop, const PmixLibrary& library, Mailbox& mailbox,
                           PmixFences& fences, PmixSend send, Warn warn)
    : library_(library),
      mailbox_(mailbox),
      fences_(fences),
      names_(loop, std::move(send)),
      warn_(std::move(warn)) {
  current = this;
}

void PmixServices::set_job(const PmixJob& job) {
  nspace_ = job.nspace;
  host_index_ = static_cast<std::size_t>(job.host_index);
  host_count_ = job.hosts.size();
}

void PmixServices::add_to(pmix_server_module_t& module) {
  module.publish = &PmixServices::on_publish;
  module.lookup = &PmixServices::on_lookup;
  module.unpublish = &PmixServices::on_unpublish;
  module.query = &PmixServices::on_query;
  module.connect = &PmixServices::on_connect;
  module.disconnect = &PmixServices::on_disconnect;
  module.group = &PmixServices::on_group;
  module.spawn = &PmixServices::on_spawn;
  module.job_control = &PmixServices::on_job_control;
  module.log = &PmixServices::on_log;
}

// --- names ---------------------------------------------------------------------------------------

// Returns the value in libpmix's form for other processes; empty if it cannot be packed.
std::string PmixServices::pack_value(const pmix_value_t& value) const {
  pmix_data_buffer_t buffer{};
  auto copy = value;
  const auto status = library_.PMIx_Data_pack(nullptr, &buffer, &copy, 1, PMIX_VALUE);
  std::string packed;
  if (status == PMIX_SUCCESS) packed.assign(buffer.base_ptr, buffer.bytes_used);
  std::free(buffer.base_ptr);
  return packed;
}

pmix_status_t PmixServices::on_publish(const pmix_proc_t* proc, const pmix_info_t info[],
                                       std::size_t count, pmix_op_cbfunc_t done, void* context) {
  auto* const self = current.load();
  if (self == nullptr) return PMIX_ERR_UNREACH;
  std::vector<Named> names;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::string_view(info[i].key).starts_with(kReserved)) continue;
    auto packed = self->pack_value(info[i].value);
    if (packed.empty()) return PMIX_ERR_PACK_FAILURE;
    names.push_back({info[i].key, std::move(packed)});
  }
  if (names.empty()) return PMIX_ERR_BAD_PARAM;
  self->mailbox_.post([self, names = std::move(names), rank = proc->rank,
                       once = is_read_once(info, count), timeout = timeout_of(info, count), done,
                       context] {
    NamesRequest request{0, NamesRequest::Operation::publish, once, false, values_of(names, rank)};
    self->names_.ask(std::move(request), timeout,
                     [done, context](std::int32_t status, const auto&) { done(status, context); });
  });
  return PMIX_SUCCESS;
}

pmix_status_t PmixServices::on_unpublish(const pmix_proc_t* proc, char** keys,
                                         const pmix_info_t info[], std::size_t count,
                                         pmix_op_cbfunc_t done, void* context) {
  auto* const self = current.load();
  if (self == nullptr) return PMIX_ERR_UNREACH;
  auto names = named(keys);
  if (names.empty()) names.emplace_back();  // all that the rank has published
  self->mailbox_.post([self, names = std::move(names), rank = proc->rank,
                       timeout = timeout_of(info, count), done, context] {
    NamesRequest request{0, NamesRequest::Operation::withdraw, false, false,
                         values_of(names, rank)};
    self->names_.ask(std::move(request), timeout,
                     [done, context](std::int32_t status, const auto&) { done(status, context); });
  });
  return PMIX_SUCCESS;
}

pmix_status_t PmixServices::on_lookup(const pmix_proc_t* proc, char** keys,
                                      const pmix_info_t info[], std::size_t count,
                                      pmix_lookup_cbfunc_t done, void* context) {
  auto* const self = current.load();
  if (self == nullptr) return PMIX_ERR_UNREACH;
  auto names = named(keys);
  if (names.empty()) return PMIX_ERR_BAD_PARAM;
  self->mailbox_.post([self, names = std::move(names), rank = proc->rank,
                       waits = find_value(info, count, PMIX_WAIT) != nullptr,
                       timeout = timeout_of(info, count), done, context] {
    NamesRequest request{0, NamesRequest::Operation::look_up, false, waits, values_of(names, rank)};
    self->names_.ask(std::move(request), timeout,
                     [self, done, context](std::int32_t status, const auto& values) {
                       self->answer_lookup(status, values, done, context);
                     });
  });
  return PMIX_SUCCESS;
}

// libpmix packs the values for the client before it returns.
void PmixServices::answer_lookup(std::int32_t status, const std::vector<PublishedValue>& values,
                                 pmix_lookup_cbfunc_t done, void* context) const {
  std::vector<pmix_pdata_t> found;
  for (const auto& value : values) {
    auto& data = found.emplace_back();
    std::memset(&data, 0, sizeof data);
    nspace_.copy(data.proc.nspace, PMIX_MAX_NSLEN);
    data.proc.rank = value.rank;
    value.key.copy(data.key, PMIX_MAX_KEYLEN);
    std::string packed(value.value);
    pmix_data_buffer_t buffer{packed.data(), packed.data() + packed.size(), packed.data(),
                              packed.size(), packed.size()};
    std::int32_t count = 1;
    const auto unpacked =
        library_.PMIx_Data_unpack(nullptr, &buffer, &data.value, &count, PMIX_VALUE);
    if (unpacked != PMIX_SUCCESS) status = unpacked;
  }
  done(status, found.data(), found.size(), context);
  for (auto& data : found) library_.PMIx_Value_destruct(&data.value);
}

// --- ranks that come together --------------------------------------------------------------------

pmix_status_t PmixServices::join(const char* purpose, const pmix_proc_t procs[],
                                 std::size_t proc_count, const pmix_info_t info[],
                                 std::size_t count, pmix_op_cbfunc_t done, void* context) {
  auto ranks = ranks_of(procs, proc_count, nspace_);
  if (!ranks) return PMIX_ERR_NOT_SUPPORTED;  // of two jobs
  mailbox_.post([this, ranks = std::move(*ranks), status = local_status_of(info, count),
                 timeout = timeout_of(info, count), purpose, done, context] {
    fences_.join({ranks,
                  status,
                  {},
                  timeout,
                  [done, context](std::int32_t result, std::string_view) { done(result, context); },
                  purpose});
  });
  return PMIX_SUCCESS;
}

pmix_status_t PmixServices::on_connect(const pmix_proc_t procs[], std::size_t proc_count,
                                       const pmix_info_t info[], std::size_t count,
                                       pmix_op_cbfunc_t done, void* context) {
  auto* const self = current.load();
  return self == nullptr ? PMIX_ERR_UNREACH
                         : self->join("connect", procs, proc_count, info, count, done, context);
}

pmix_status_t PmixServices::on_disconnect(const pmix_proc_t procs[], std::size_t proc_count,
                                          const pmix_info_t info[], std::size_t count,
                                          pmix_op_cbfunc_t done, void* context) {
  auto* const self = current.load();
  return self == nullptr ? PMIX_ERR_UNREACH
                         : self->join("disconnect", procs, proc_count, info, count, done, context);
}

pmix_status_t PmixServices::on_group(pmix_group_operation_t operation, char* name,
                                     const pmix_proc_t procs[], std::size_t proc_count,
                                     const pmix_info_t info[], std::size_t count,
                                     pmix_info_cbfunc_t done, void* context) {
  auto* const self = current.load();
  if (self == nullptr) return PMIX_ERR_UNREACH;
  auto ranks = ranks_of(procs, proc_count, self->nspace_);
  const bool begins = operation == PMIX_GROUP_CONSTRUCT;
  if (!ranks || (!begins && operation != PMIX_GROUP_DESTRUCT)) return PMIX_ERR_NOT_SUPPORTED;
  // libpmix 5.0 makes this call twice for one request, unless the first is answered at once.
  if (!begins && is_on(info, count, PMIX_GROUP_LOCAL_ONLY)) return PMIX_OPERATION_SUCCEEDED;
  const auto number = self->groups_++ * self->host_count_ + self->host_index_ + 1;
  const auto* const shared = find_value(info, count, PMIX_GROUP_ENDPT_DATA);
  const bool has_shared = shared != nullptr && shared->type == PMIX_BYTE_OBJECT;
  auto part = pack_group_part(
      number, has_shared ? std::string_view(shared->data.bo.bytes, shared->data.bo.size) : "");
  const auto answer = [begins, members = std::vector<pmix_proc_t>(procs, procs + proc_count),
                       with_number = is_on(info, count, PMIX_GROUP_ASSIGN_CONTEXT_ID), done,
                       context](std::int32_t status, std::string_view parts) {
    if (status != PMIX_SUCCESS || !begins)
      return done(status, nullptr, 0, context, nullptr, nullptr);
    GroupResult::give(std::make_unique<GroupResult>(parts, members, with_number), done, context);
  };
  self->mailbox_.post([self, ranks = std::move(*ranks), status = local_status_of(info, count),
                       part = std::move(part), timeout = timeout_of(info, count), answer,
                       purpose = fmt::format("{} {}", begins ? "group" : "ungroup", name)] {
    self->fences_.join({ranks, status, part, timeout, answer, purpose});
  });
  return PMIX_SUCCESS;
}

// --- queries -------------------------------------------------------------------------------------

pmix_status_t PmixServices::on_query(pmix_proc_t*, pmix_query_t* queries, std::size_t count,
                                     pmix_info_cbfunc_t done, void* context) {
  auto* const self = current.load();
  if (self == nullptr) return PMIX_ERR_UNREACH;
  auto answer = answer_queries(queries, count, self->nspace_);
  if (answer.infos->size() == 0) return answer.status;
  // libpmix holds a lock now that `done` takes.
  self->mailbox_.post(
      [status = answer.status, infos = std::shared_ptr(std::move(answer.infos)), done, context] {
        auto* const given = new std::shared_ptr(infos);
        done(
            status, infos->data(), infos->size(), context,
            [](void* released) { delete static_cast<std::shared_ptr<PmixInfoList>*>(released); },
            given);
      });
  return PMIX_SUCCESS;
}

// --- texts ---------------------------------------------------------------------------------------

void PmixServices::on_log(const pmix_proc_t* client, const pmix_info_t data[], std::size_t count,
                          const pmix_info_t[], std::size_t, pmix_op_cbfunc_t done, void* context) {
  auto* const self = current.load();
  if (self == nullptr) return done(PMIX_ERR_UNREACH, context);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view key = data[i].key;
    const auto& value = data[i].value;
    if ((key == PMIX_LOG_STDERR || key == PMIX_LOG_STDOUT) && value.type == PMIX_STRING)
      texts.emplace_back(common::trim(value.data.string));
  }
  // libpmix holds a lock now that `done` takes.
  self->mailbox_.post([self, from = *client, texts = std::move(texts), done, context] {
    const auto who = self->nspace_ == from.nspace ? fmt::format("rank {} logs", from.rank)
                                                  : std::string("PMIx says");
    for (const auto& text : texts) self->warn_(fmt::format("{}: {}", who, text));
    done(texts.empty() ? PMIX_ERR_NOT_SUPPORTED : PMIX_SUCCESS, context);
  });
}

// --- what a job of hvdrun does not have ----------------------------------------------------------

pmix_status_t PmixServices::on_spawn(const pmix_proc_t* proc, const pmix_info_t[], std::size_t,
                                     const pmix_app_t apps[], std::size_t app_count,
                                     pmix_spawn_cbfunc_t, void*) {
  auto* const self = current.load();
  if (self == nullptr) return PMIX_ERR_UNREACH;
  const std::string program = app_count > 0 && apps[0].cmd != nullptr ? apps[0].cmd : "a program";
  self->mailbox_.post([self, rank = proc->rank, program] {
    if (std::exchange(self->has_warned_of_spawn_, true)) return;
    self->warn_(fmt::format(
        "rank {} called MPI_Comm_spawn or PMIx_Spawn to start {}: refused, because a job of hvdrun "
        "has a fixed number of ranks. Start all of them with -np, or use the MPI's own mpiexec",
        rank, program));
  });
  return PMIX_ERR_NOT_SUPPORTED;
}

// libpmix itself removes what a rank registers for clean-up, and answers that without us. It needs
// this function, though.
pmix_status_t PmixServices::on_job_control(const pmix_proc_t*, const pmix_proc_t[], std::size_t,
                                           const pmix_info_t[], std::size_t, pmix_info_cbfunc_t,
                                           void*) {
  return PMIX_ERR_NOT_SUPPORTED;
}

}  // namespace hvdrun
