// libpmix, opened at run time, so that hvdrun starts quickly and runs without it under --pmix off;
// and what its C interface needs: lists of infos, and a wait for its answers.
//
// A PmixLibrary is a plain value of pointers. A PmixInfoList belongs to one thread. PmixAnswers may
// be answered from any thread, which is usually libpmix's own.
#pragma once

#include "base/result.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <pmix.h>
#include <pmix_common.h>
#include <pmix_server.h>

// The functions of libpmix that the agent calls: X(name) for each.
#define HVDRUN_PMIX_SYMBOLS(X)   \
  X(PMIx_server_init)            \
  X(PMIx_server_register_nspace) \
  X(PMIx_server_register_client) \
  X(PMIx_server_setup_fork)      \
  X(PMIx_server_dmodex_request)  \
  X(PMIx_generate_regex)         \
  X(PMIx_generate_ppn)           \
  X(PMIx_Data_pack)              \
  X(PMIx_Data_unpack)            \
  X(PMIx_Value_destruct)         \
  X(PMIx_Error_string)           \
  X(PMIx_Get_version)

namespace hvdrun {

// The symbols of one opened libpmix. Never closed: its threads live as long as the process.
struct PmixLibrary {
#define HVDRUN_PMIX_MEMBER(name) decltype(&::name) name = nullptr;
  HVDRUN_PMIX_SYMBOLS(HVDRUN_PMIX_MEMBER)
#undef HVDRUN_PMIX_MEMBER

  // Opens libpmix.so.2. Error: it is not installed, or too old. The message names the package or
  // the version to install.
  static Result<PmixLibrary> open();
};

// Returns whether a server of that version has a thread of its own that accepts connections. Since
// 4.2.6 and 5.0.1 the thread that works accepts them. `version`: of PMIx_Get_version().
bool has_thread_that_accepts(std::string_view version);

// A list of pmix_info_t that owns its values. PMIx reads it during a call and frees none of it.
class PmixInfoList {
 public:
  void add(const char* key, const std::string& value) {
    strings_.push_back(value);
    slot(key, PMIX_STRING).string = strings_.back().data();
  }
  void add(const char* key, bool value) { slot(key, PMIX_BOOL).flag = value; }
  void add_size(const char* key, std::size_t value) { slot(key, PMIX_SIZE).size = value; }
  void add_uint32(const char* key, std::uint32_t value) { slot(key, PMIX_UINT32).uint32 = value; }
  void add_uint16(const char* key, std::uint16_t value) { slot(key, PMIX_UINT16).uint16 = value; }
  void add_rank(const char* key, pmix_rank_t value) { slot(key, PMIX_PROC_RANK).rank = value; }
  void add_pointer(const char* key, void* value) { slot(key, PMIX_POINTER).ptr = value; }

  // Adds a value of PMIx_generate_regex or _ppn: text with its terminating NUL.
  void add_regex(const char* key, const std::string& value) {
    strings_.push_back(value);
    auto& data = slot(key, PMIX_REGEX);
    data.bo.bytes = strings_.back().data();
    data.bo.size = value.size() + 1;
  }

  // Adds an array of infos as one value (PMIX_PROC_DATA), and returns the list to fill.
  PmixInfoList& add_list(const char* key) {
    arrays_.push_back({PMIX_INFO, 0, nullptr});
    slot(key, PMIX_DATA_ARRAY).darray = &arrays_.back();
    return lists_.emplace_back();
  }

  // Returns the infos; valid until something is added.
  pmix_info_t* data() {
    auto array = arrays_.begin();
    for (PmixInfoList& list : lists_) {
      array->array = list.data();
      array->size = list.size();
      ++array;
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
  // Deques and a list: what infos_ points to must not move. Only a list takes a class inside
  // itself.
  std::deque<std::string> strings_;
  std::list<PmixInfoList> lists_;
  std::deque<pmix_data_array_t> arrays_;
};

// Waits for answers that PMIx gives on its own thread. Shared, because an answer may arrive after
// the wait has timed out.
class PmixAnswers {
 public:
  explicit PmixAnswers(int expected) : open_(expected) {}

  // For PMIx, as pmix_op_cbfunc_t. `context` is a new std::shared_ptr<PmixAnswers>, freed here.
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

  // Returns an error that an answer had, or PMIX_ERR_TIMEOUT.
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
// until all are answered. Returns an error that one of them had, or PMIX_ERR_TIMEOUT after 10 s.
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

}  // namespace hvdrun
