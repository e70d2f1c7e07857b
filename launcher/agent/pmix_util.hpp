// libpmix, opened at run time: hvdrun starts quickly and runs without it where --pmix off says so.
#pragma once

#include "agent/pmix_job.hpp"
#include "base/result.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pmix.h>
#include <pmix_common.h>
#include <pmix_server.h>

// The functions that the agent calls; X(name).
#define HVDRUN_PMIX_SYMBOLS(X)   \
  X(PMIx_server_init)            \
  X(PMIx_server_register_nspace) \
  X(PMIx_server_register_client) \
  X(PMIx_server_setup_fork)      \
  X(PMIx_server_dmodex_request)  \
  X(PMIx_generate_regex)         \
  X(PMIx_generate_ppn)           \
  X(PMIx_Error_string)           \
  X(PMIx_Get_version)

namespace hvdrun {

// The symbols of one opened libpmix. Never closed: its threads live as long as the process.
struct PmixLibrary {
#define HVDRUN_PMIX_MEMBER(name) decltype(&::name) name = nullptr;
  HVDRUN_PMIX_SYMBOLS(HVDRUN_PMIX_MEMBER)
#undef HVDRUN_PMIX_MEMBER

  // Opens libpmix.so.2. Error: not installed, or too old; says which package to install.
  static Result<PmixLibrary> open();
};

// A list of pmix_info_t whose values we own: PMIx reads it during a call and frees nothing of it.

class PmixInfoList {
 public:
  void add(const char* key, const std::string& value) {
    strings_.push_back(value);
    slot(key, PMIX_STRING).string = strings_.back().data();
  }
  void add(const char* key, bool value) { slot(key, PMIX_BOOL).flag = value; }
  void add_uint32(const char* key, std::uint32_t value) { slot(key, PMIX_UINT32).uint32 = value; }
  void add_uint16(const char* key, std::uint16_t value) { slot(key, PMIX_UINT16).uint16 = value; }
  void add_rank(const char* key, pmix_rank_t value) { slot(key, PMIX_PROC_RANK).rank = value; }
  void add_pointer(const char* key, void* value) { slot(key, PMIX_POINTER).ptr = value; }

  // A value of PMIx_generate_regex or _ppn: text with its terminating NUL.
  void add_regex(const char* key, const std::string& value) {
    strings_.push_back(value);
    auto& data = slot(key, PMIX_REGEX);
    data.bo.bytes = strings_.back().data();
    data.bo.size = value.size() + 1;
  }

  // An array of infos as one value (PMIX_PROC_DATA).
  PmixInfoList& add_list(const char* key) {
    lists_.emplace_back();
    arrays_.push_back({PMIX_INFO, 0, nullptr});
    slot(key, PMIX_DATA_ARRAY).darray = &arrays_.back();
    return lists_.back();
  }

  // Valid until the next add.
  pmix_info_t* data() {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      arrays_[i].array = lists_[i].data();
      arrays_[i].size = lists_[i].size();
    }
    return infos_.data();
  }
  std::size_t size() const { return infos_.size(); }

 private:
  decltype(pmix_value_t::data)& slot(const char* key, pmix_data_type_t type) {
    infos_.emplace_back();
    auto& info = infos_.back();
    std::memset(&info, 0, sizeof info);
    std::strncpy(info.key, key, PMIX_MAX_KEYLEN);
    info.value.type = type;
    return info.value.data;
  }

  std::vector<pmix_info_t> infos_;
  // Deques: what infos_ points to must not move.
  std::deque<std::string> strings_;
  std::deque<PmixInfoList> lists_;
  std::deque<pmix_data_array_t> arrays_;
};

// Waiting for answers that PMIx gives on its own thread.

// Counts them down. Shared, since an answer may come after the waiting has been given up.
class PmixAnswers {
 public:
  explicit PmixAnswers(int expected) : open_(expected) {}

  // pmix_op_cbfunc_t; `context` is a new std::shared_ptr<PmixAnswers>, freed here.
  static void on_answer(pmix_status_t status, void* context) {
    const std::unique_ptr<std::shared_ptr<PmixAnswers>> self(
        static_cast<std::shared_ptr<PmixAnswers>*>(context));
    (*self)->answer(status);
  }

  void answer(pmix_status_t status) {
    const std::lock_guard lock(mutex_);
    if (status != PMIX_SUCCESS) status_ = status;
    if (--open_ == 0) changed_.notify_all();
  }

  pmix_status_t wait(std::chrono::seconds timeout) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return open_ <= 0; })) return PMIX_ERR_TIMEOUT;
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_;
  pmix_status_t status_ = PMIX_SUCCESS;
};

// Makes `count` calls `pmix_status_t call(int i, pmix_op_cbfunc_t done, void* context)` and waits
// until all are answered, at most 10 s (PMIX_ERR_TIMEOUT). Returns an error that one of them had.
template <class Call>
pmix_status_t wait_for_pmix(int count, Call call) {
  constexpr std::chrono::seconds kTimeout{10};
  const auto answers = std::make_shared<PmixAnswers>(count);
  for (int i = 0; i < count; ++i) {
    auto context = std::make_unique<std::shared_ptr<PmixAnswers>>(answers);
    const pmix_status_t status = call(i, &PmixAnswers::on_answer, context.get());
    if (status == PMIX_SUCCESS)
      static_cast<void>(context.release());  // on_answer frees it
    else
      answers->answer(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
  }
  return answers->wait(kTimeout);
}

// Reading what libpmix hands to the functions of a server: pure functions.

// PMIX_TIMEOUT, whatever type of number the caller gave it; none: not there, or 0, which is no
// limit.
std::optional<std::chrono::seconds> timeout_of(const pmix_info_t infos[], std::size_t count);

// PMIX_LOCAL_COLLECTIVE_STATUS: how the local ranks' part went.
pmix_status_t local_status_of(const pmix_info_t infos[], std::size_t count);

// Ranks of `nspace`, ascending; empty: all of them. None: some are not of that namespace.
std::optional<std::vector<std::uint32_t>> ranks_of(const pmix_proc_t procs[], std::size_t count,
                                                   std::string_view nspace);

}  // namespace hvdrun

struct hwloc_topology;

namespace hvdrun {

// What libpmix finds in the agent's process when its server starts.

// This machine, or null: libpmix then reads it by itself, more slowly. Never freed: libpmix keeps
// it.
hwloc_topology* quick_topology();

// Settings for libpmix and hwloc inside the agent only: ranks get the caller's environment.
void prepare_pmix_environment(std::size_t local_ranks);

// What a PMIx server is told of its job: hosts, ranks, and where each runs.
//
// Source: PMIx Standard 4.1, chapter 16.2.3 (PMIx_server_register_nspace).

// `folder` is for the files of PMIx and of its clients. Error: libpmix cannot pack the maps.
Result<PmixInfoList> describe_job(const PmixLibrary& library, const PmixJob& job,
                                  const std::filesystem::path& folder);

}  // namespace hvdrun
