// The C ABI of hvd/checkpoint.h.
#include "base/process_environment.hpp"
#include "c_api/c_api.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/checkpoints.hpp"
#include "common/variables.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <hvd/checkpoint.h>
#include <unistd.h>

using libhvd::CallOptions;
using libhvd::Communicator;
using libhvd::fail;
using libhvd::Result;
using libhvd::checkpoint::agree;
using libhvd::checkpoint::Checkpoints;
using libhvd::checkpoint::Found;
using libhvd::checkpoint::Item;
using libhvd::checkpoint::Options;

struct hvd_checkpoints {
  std::unique_ptr<Checkpoints> checkpoints;
  std::uint64_t generation = 0;  // of the session that it was opened in
  pid_t pid = 0;                 // of the process that opened it; a forked child lacks the threads
  std::optional<Found> found;    // by the last find or load
};

namespace {

// All open handles, for a process that ends without closing them. Never destroyed.
struct Handles {
  std::mutex mutex;
  std::vector<hvd_checkpoints*> open;
  bool handler_set = false;
};

Handles& handles() {
  static auto* const only = new Handles;
  return *only;
}

// Finishes the writing of all open handles. Does not free them, because destructors of static
// objects may still close them.
void finish_at_exit() {
  const std::unique_lock calls(libhvd::process().calls, std::try_to_lock);
  if (!calls.owns_lock()) return;  // another thread is using them
  const std::lock_guard lock(handles().mutex);
  for (hvd_checkpoints* handle : handles().open) {
    if (handle->pid != ::getpid()) continue;
    if (const Result<void> outcome = handle->checkpoints->close(); !outcome.ok())
      std::fprintf(stderr, "hvd: %s\n", outcome.error().message.c_str());
  }
}

void remember(hvd_checkpoints* handle) {
  const std::lock_guard lock(handles().mutex);
  handles().open.push_back(handle);
  if (!handles().handler_set) std::atexit(finish_at_exit);
  handles().handler_set = true;
}

void forget(hvd_checkpoints* handle) {
  const std::lock_guard lock(handles().mutex);
  std::erase(handles().open, handle);
}

// Returns the options; null: all defaults. An error in them becomes Options::fault, which is an
// error on all ranks.
Options read_options(const char* folder, const hvd_checkpoints_options* options) {
  Options read;
  read.job = libhvd::process_environment()(HVD_ENV_JOB_ID).value_or("");
  if (folder == nullptr || *folder == '\0') read.fault = "hvd_checkpoints_open: no folder is named";
  if (options == nullptr) return read;
  const std::size_t size = options->struct_size;
  if (size < sizeof(hvd_checkpoints_options) || size > 4096) {
    read.fault = "hvd_checkpoints_options.struct_size is " + std::to_string(size) +
                 "; it must be sizeof(hvd_checkpoints_options)";
    return read;
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(options);
  if (std::any_of(bytes + sizeof *options, bytes + size, [](unsigned char b) { return b != 0; }))
    read.fault = "hvd_checkpoints_options asks for what this version of libhvd cannot do";
  if (options->best < HVD_BEST_NONE || options->best > HVD_BEST_MAX)
    read.fault = "hvd_checkpoints_options.best is " + std::to_string(options->best);
  if (options->keep_last < HVD_KEEP_ALL)
    read.fault = "hvd_checkpoints_options.keep_last is " + std::to_string(options->keep_last);
  if (options->keep_last != 0) read.retention.keep_last = options->keep_last;
  read.retention.best = options->best;
  read.sharded = options->sharded != 0;
  read.read_only = options->read_only != 0;
  return read;
}

// Throws std::bad_alloc.
Result<std::vector<Item>> read_items(const hvd_tensor_view* items, std::size_t count) {
  if (items == nullptr && count > 0) return fail(HVD_ERROR_INVALID_ARGUMENT, "items is null");
  std::vector<Item> read;
  for (std::size_t i = 0; i < count; ++i) {
    const hvd_tensor_view& item = items[i];
    if (item.dims < 0 || (item.shape == nullptr && item.dims > 0))
      return fail(HVD_ERROR_INVALID_ARGUMENT, "item " + std::to_string(i) + " has " +
                                                  std::to_string(item.dims) +
                                                  " dimensions, and no shape that goes with them");
    Item own;
    own.description.name = item.name == nullptr ? "" : item.name;
    own.description.type = item.type;
    if (item.dims > 0) own.description.shape.assign(item.shape, item.shape + item.dims);
    own.description.bytes = item.bytes;
    own.data = static_cast<std::byte*>(item.data);
    if (item.resize != nullptr && item.type == HVD_ITEM_BYTES)
      own.resize = [resize = item.resize, context = item.context](std::size_t bytes) {
        return static_cast<std::byte*>(resize(context, bytes));
      };
    read.push_back(std::move(own));
  }
  return read;
}

// Checks the handle. Error: this session cannot use it. The caller is inside a collective.
Result<void> check_handle(const hvd_checkpoints* handle) {
  if (handle == nullptr) return fail(HVD_ERROR_INVALID_ARGUMENT, "the checkpoints handle is null");
  if (handle->generation != libhvd::process().generations.last())
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "the checkpoints were opened before hvd_shutdown; open them again");
  return {};
}

// Runs a collective on a handle. body: (Communicator&) -> Result<void>. `own`: the result of
// checking this rank's other arguments. An error on one rank is an error on all.
template <class Body>
hvd_status call(const char* what, hvd_checkpoints* handle, const Result<void>& own, Body body) {
  return libhvd::collective(
      what, {}, [&](Communicator& communicator, const CallOptions&) -> Result<void> {
        const Result<void> usable = check_handle(handle);
        Result<void> outcome = agree(communicator, usable.ok() ? own : usable);
        if (outcome.ok()) outcome = body(communicator);
        if (outcome.ok()) return outcome;
        return libhvd::with_context(what, outcome.error());
      });
}

// Checks the caller's struct, which may be null. Error: it has another size.
Result<void> check_answer(const hvd_checkpoint* checkpoint) {
  if (checkpoint == nullptr || checkpoint->struct_size == sizeof(hvd_checkpoint)) return {};
  return fail(HVD_ERROR_INVALID_ARGUMENT, "hvd_checkpoint.struct_size is " +
                                              std::to_string(checkpoint->struct_size) +
                                              "; it must be sizeof(hvd_checkpoint)");
}

// Fills in the caller's description of the checkpoint, unless it is null.
void answer(const std::optional<Found>& found, hvd_checkpoint* checkpoint) {
  if (checkpoint == nullptr) return;
  *checkpoint = {};
  checkpoint->struct_size = sizeof *checkpoint;
  if (!found) return;
  checkpoint->found = 1;
  checkpoint->has_metric = found->index.metric ? 1 : 0;
  checkpoint->step = found->index.step;
  checkpoint->metric = found->index.metric.value_or(0);
  checkpoint->items = found->index.parts.size();
  checkpoint->path = found->path.c_str();
}

}  // namespace

hvd_status hvd_checkpoints_open(const char* folder, const hvd_checkpoints_options* options,
                                hvd_checkpoints** checkpoints) {
  return libhvd::collective("hvd_checkpoints_open", {},
                            [=](Communicator& communicator, const CallOptions&) -> Result<void> {
                              Options read = read_options(folder, options);
                              if (checkpoints == nullptr)
                                read.fault = "hvd_checkpoints_open: a null pointer";
                              auto opened = Checkpoints::open(
                                  communicator, folder == nullptr ? "" : folder, read);
                              if (!opened.ok())
                                return libhvd::with_context("hvd_checkpoints_open", opened.error());
                              auto handle = std::make_unique<hvd_checkpoints>();
                              handle->checkpoints = std::move(*opened);
                              handle->generation = libhvd::process().generations.last();
                              handle->pid = ::getpid();
                              remember(handle.get());
                              *checkpoints = handle.release();
                              return {};
                            });
}

hvd_status hvd_checkpoints_save(hvd_checkpoints* checkpoints, const hvd_tensor_view* items,
                                size_t count, uint64_t step, const double* metric) {
  return libhvd::take_part("hvd_checkpoints_save", [=] {
    const auto read = libhvd::attempt([=] { return read_items(items, count); });
    const Result<void> own = read.ok() ? Result<void>() : Result<void>(read.error());
    return call("hvd_checkpoints_save", checkpoints, own, [&](Communicator& communicator) {
      return checkpoints->checkpoints->save(
          communicator, *read, step,
          metric == nullptr ? std::nullopt : std::optional<double>(*metric));
    });
  });
}

hvd_status hvd_checkpoints_wait(hvd_checkpoints* checkpoints) {
  return call("hvd_checkpoints_wait", checkpoints, Result<void>(), [=](Communicator& communicator) {
    return checkpoints->checkpoints->wait(communicator);
  });
}

hvd_status hvd_checkpoints_load(hvd_checkpoints* checkpoints, const hvd_tensor_view* items,
                                size_t count, hvd_which which, hvd_checkpoint* checkpoint) {
  return libhvd::take_part("hvd_checkpoints_load", [=] {
    const auto read = libhvd::attempt([=] { return read_items(items, count); });
    Result<void> own = check_answer(checkpoint);
    if (!read.ok()) own = read.error();
    return call(
        "hvd_checkpoints_load", checkpoints, own, [&](Communicator& communicator) -> Result<void> {
          HVD_TRY(checkpoints->found, checkpoints->checkpoints->load(communicator, *read, which));
          answer(checkpoints->found, checkpoint);
          return {};
        });
  });
}

hvd_status hvd_checkpoints_find(hvd_checkpoints* checkpoints, hvd_which which,
                                hvd_checkpoint* checkpoint) {
  return libhvd::take_part("hvd_checkpoints_find", [=] {
    return call("hvd_checkpoints_find", checkpoints, check_answer(checkpoint),
                [=](Communicator& communicator) -> Result<void> {
                  HVD_TRY(checkpoints->found, checkpoints->checkpoints->find(communicator, which));
                  answer(checkpoints->found, checkpoint);
                  return {};
                });
  });
}

hvd_status hvd_checkpoints_item(const hvd_checkpoints* checkpoints, size_t index,
                                hvd_tensor_view* item) {
  return libhvd::guard("hvd_checkpoints_item", [=] {
    if (checkpoints == nullptr || item == nullptr)
      return libhvd::report(
          fail(HVD_ERROR_INVALID_ARGUMENT, "hvd_checkpoints_item: a null pointer"));
    const std::size_t count = checkpoints->found ? checkpoints->found->index.parts.size() : 0;
    if (index >= count)
      return libhvd::report(fail(HVD_ERROR_INVALID_ARGUMENT,
                                 "hvd_checkpoints_item: there are " + std::to_string(count) +
                                     " items, and no number " + std::to_string(index)));
    const auto& part = checkpoints->found->index.parts[index].description;
    *item = {};
    item->name = part.name.c_str();
    item->type = part.type;
    item->dims = static_cast<int32_t>(part.shape.size());
    item->shape = part.shape.data();
    item->bytes = part.bytes;
    return static_cast<hvd_status>(HVD_OK);
  });
}

hvd_status hvd_checkpoints_close(hvd_checkpoints* checkpoints) {
  return libhvd::guard("hvd_checkpoints_close", [=]() -> hvd_status {
    if (checkpoints == nullptr) return HVD_OK;
    if (checkpoints->pid != ::getpid())
      return libhvd::report(libhvd::in_forked_child("hvd_checkpoints_close"));
    forget(checkpoints);
    const std::unique_ptr<hvd_checkpoints> owner(checkpoints);
    const Result<void> outcome = owner->checkpoints->close();
    if (outcome.ok()) return HVD_OK;
    return libhvd::report(libhvd::with_context("hvd_checkpoints_close", outcome.error()));
  });
}
