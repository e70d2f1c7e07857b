// Waiting for answers that PMIx gives on its own thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include <pmix_common.h>

namespace hvdrun {

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

  pmix_status_t wait(std::chrono::seconds patience) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [&] { return open_ <= 0; })) return PMIX_ERR_TIMEOUT;
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
  constexpr std::chrono::seconds kPatience{10};
  const auto answers = std::make_shared<PmixAnswers>(count);
  for (int i = 0; i < count; ++i) {
    auto context = std::make_unique<std::shared_ptr<PmixAnswers>>(answers);
    const pmix_status_t status = call(i, &PmixAnswers::on_answer, context.get());
    if (status == PMIX_SUCCESS)
      static_cast<void>(context.release());  // on_answer frees it
    else
      answers->answer(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
  }
  return answers->wait(kPatience);
}

}  // namespace hvdrun
