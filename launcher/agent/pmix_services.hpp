// The services of a PMIx server beside the exchange of data: names that ranks publish, connections
// between ranks, groups, queries, texts that ranks log, and clear refusals of what a job cannot do.
//
// The PMIx server owns it. libpmix calls its functions on a thread of its own; they post into the
// agent's loop and return. What cannot be done is answered with one of PMIx's errors.
//
// Source: PMIx Standard 4.1, chapters 7 (query), 9 (publish), 11 (connect, spawn), 13 (groups), 16
// (server).
#pragma once

#include "agent/pmix_fences.hpp"
#include "agent/pmix_job.hpp"
#include "agent/pmix_library.hpp"
#include "agent/pmix_names.hpp"
#include "base/event_loop.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hvdrun {

class PmixServices {
 public:
  // Says something to the user. From the loop's thread.
  using Warn = std::function<void(const std::string& text)>;

  PmixServices(const EventLoop& loop, const PmixLibrary& library, Mailbox& mailbox,
               PmixFences& fences, PmixSend send, Warn warn);
  ~PmixServices() { current = nullptr; }
  PmixServices(const PmixServices&) = delete;
  PmixServices& operator=(const PmixServices&) = delete;

  // Call it before libpmix knows the job.
  void set_job(const PmixJob& job);

  static void add_to(pmix_server_module_t& module);

  Result<void> on_names_answer(std::string_view payload) { return names_.on_answer(payload); }

 private:
  // libpmix's callbacks carry no context of ours.
  static inline std::atomic<PmixServices*> current{nullptr};
  static pmix_status_t on_publish(const pmix_proc_t* proc, const pmix_info_t info[],
                                  std::size_t count, pmix_op_cbfunc_t done, void* context);
  static pmix_status_t on_lookup(const pmix_proc_t* proc, char** keys, const pmix_info_t info[],
                                 std::size_t count, pmix_lookup_cbfunc_t done, void* context);
  static pmix_status_t on_unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t info[],
                                    std::size_t count, pmix_op_cbfunc_t done, void* context);
  static pmix_status_t on_connect(const pmix_proc_t procs[], std::size_t proc_count,
                                  const pmix_info_t info[], std::size_t count,
                                  pmix_op_cbfunc_t done, void* context);
  static pmix_status_t on_disconnect(const pmix_proc_t procs[], std::size_t proc_count,
                                     const pmix_info_t info[], std::size_t count,
                                     pmix_op_cbfunc_t done, void* context);
  static pmix_status_t on_group(pmix_group_operation_t operation, char* name,
                                const pmix_proc_t procs[], std::size_t proc_count,
                                const pmix_info_t info[], std::size_t count,
                                pmix_info_cbfunc_t done, void* context);
  static pmix_status_t on_spawn(const pmix_proc_t* proc, const pmix_info_t info[],
                                std::size_t count, const pmix_app_t apps[], std::size_t app_count,
                                pmix_spawn_cbfunc_t done, void* context);
  static pmix_status_t on_job_control(const pmix_proc_t* proc, const pmix_proc_t targets[],
                                      std::size_t target_count, const pmix_info_t directives[],
                                      std::size_t count, pmix_info_cbfunc_t done, void* context);

  static pmix_status_t on_query(pmix_proc_t* proc, pmix_query_t* queries, std::size_t count,
                                pmix_info_cbfunc_t done, void* context);

  // libpmix finds no reader for what a rank logs (Open MPI 5 logs its help texts), so it is said.
  static void on_log(const pmix_proc_t* client, const pmix_info_t data[], std::size_t count,
                     const pmix_info_t directives[], std::size_t directive_count,
                     pmix_op_cbfunc_t done, void* context);

  pmix_status_t join(const char* purpose, const pmix_proc_t procs[], std::size_t proc_count,
                     const pmix_info_t info[], std::size_t count, pmix_op_cbfunc_t done,
                     void* context);
  std::string pack_value(const pmix_value_t& value) const;
  void answer_lookup(std::int32_t status, const std::vector<PublishedValue>& values,
                     pmix_lookup_cbfunc_t done, void* context) const;

  const PmixLibrary& library_;
  Mailbox& mailbox_;
  PmixFences& fences_;
  PmixNames names_;
  Warn warn_;
  std::string nspace_;
  std::size_t host_index_ = 0;
  std::size_t host_count_ = 1;
  std::atomic<std::size_t> groups_{0};  // that this host has offered a number for
  bool has_warned_of_spawn_ = false;
};

}  // namespace hvdrun
