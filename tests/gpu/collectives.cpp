#include "collectives.hpp"

#include "elements.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <hvd/hvd.h>

namespace gpu_check {
namespace {

constexpr std::array kOps{HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX, HVD_PRODUCT};
constexpr std::array kOpNames{"average", "sum", "adasum", "min", "max", "product"};

void check(hvd_status status, const std::string& what) {
  if (status != HVD_OK) die(what, hvd_last_error());
}

// The ranks of a process set in their order. Set 0 has all ranks.
struct Group {
  std::int32_t set = 0;
  std::vector<int> ranks;

  std::size_t size() const { return ranks.size(); }
  // Returns this rank's position among them; size() if it is not in the set.
  std::size_t position() const {
    return static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), hvd_rank()) -
                                    ranks.begin());
  }
};

Group all_ranks() {
  Group group;
  group.ranks.resize(static_cast<std::size_t>(hvd_size()));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

// A tensor on the device. fill() and spoil() write it in the order of the stream.
template <class T>
class Tensor {
 public:
  Tensor(Device& device, const std::vector<T>& values)
      : values_(device, values),
        garbage_(device, std::vector<T>(values.size(), to_element<T>(77))),
        data_(device, values.size()) {}

  T* data() const { return data_.data(); }
  void fill() { data_.take(values_); }
  void spoil() { data_.take(garbage_); }

  // Checks that element `place` is number_of(place), up to a relative error.
  template <class Function>
  void expect(const std::string& what, const Function& number_of,
              double tolerance = Element<T>::tolerance) const {
    const std::vector<T> got = data_.read();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double number = to_number(got[i]), wanted = number_of(i);
      if (std::abs(number - wanted) <= tolerance * std::abs(wanted)) continue;
      die(what, "element " + std::to_string(i) + " of " + std::to_string(got.size()) + " is " +
                    std::to_string(number) + " instead of " + std::to_string(wanted));
    }
  }

 private:
  DeviceMemory<T> values_;
  DeviceMemory<T> garbage_;
  DeviceMemory<T> data_;
};

template <class T>
using TensorRef = std::shared_ptr<Tensor<T>>;

// Makes a tensor whose element i is number(i).
template <class T, class Function>
TensorRef<T> make_tensor(Device& device, std::size_t count, const Function& number) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = to_element<T>(number(i));
  return std::make_shared<Tensor<T>>(device, values);
}

template <class T>
TensorRef<T> make_input(Device& device, std::size_t count, hvd_op op) {
  return make_tensor<T>(device, count, [&](std::size_t i) { return number_at(hvd_rank(), i, op); });
}

template <class T>
TensorRef<T> make_output(Device& device, std::size_t count) {
  return make_tensor<T>(device, count, [](std::size_t) { return 55.0; });
}

// One call of a collective on this rank, which run() makes blocking and submit() in the background.
struct Call {
  std::string name;
  std::function<void()> fill;   // enqueues the writing of the buffers
  std::function<void()> spoil;  // enqueues the overwriting of the inputs
  std::function<hvd_status(const hvd_options*)> run;
  std::function<hvd_status(const hvd_options*, hvd_handle*)> submit;
  std::function<void()> verify;
  double prescale = 0;
  double postscale = 0;
  std::int32_t compression = HVD_COMPRESSION_NONE;
};

// Sets run and submit: a blocking function of hvd.h, its form in the background, and the arguments
// of both before the options.
template <class Blocking, class Background, class... Arguments>
void set_ways(Call& call, Blocking blocking, Background background, Arguments... arguments) {
  call.run = [=](const hvd_options* options) { return blocking(arguments..., options); };
  call.submit = [=](const hvd_options* options, hvd_handle* handle) {
    return background(arguments..., options, handle);
  };
}

template <class T>
std::string describe(const char* collective, hvd_op op, std::size_t count) {
  return std::string(collective) + " " + kOpNames[static_cast<std::size_t>(op)] + " of " +
         std::to_string(count) + " " + Element<T>::name;
}

// Makes a call that is in place if the two tensors are the same.
template <class T>
Call make_call(std::string name, const TensorRef<T>& input, const TensorRef<T>& output,
               std::function<void()> verify) {
  Call call;
  call.name = std::move(name);
  call.fill = [=] {
    input->fill();
    if (output != input) output->fill();
  };
  call.spoil = [=] {
    if (output != input) input->spoil();
  };
  call.verify = std::move(verify);
  return call;
}

template <class T>
Call make_allreduce(Device& device, const Group& group, hvd_op op, std::size_t count,
                    bool in_place) {
  const std::string name = describe<T>("allreduce", op, count) + (in_place ? " in place" : "");
  const auto input = make_input<T>(device, count, op);
  const auto output = in_place ? input : make_output<T>(device, count);
  Call call = make_call(name, input, output, [=] {
    output->expect(name, [&](std::size_t i) { return reduced_at<T>(group.ranks, i, op); });
  });
  set_ways(call, hvd_allreduce, hvd_allreduce_async, input->data(), output->data(), count,
           Element<T>::type, op);
  return call;
}

template <class T>
Call make_grouped_allreduce(Device& device, const Group& group, hvd_op op, std::size_t most) {
  const std::string name = describe<T>("grouped allreduce", op, most);
  const std::vector<std::size_t> counts = {1, 77, most};
  std::vector<TensorRef<T>> tensors;
  std::vector<void*> buffers;
  for (const std::size_t count : counts) {
    tensors.push_back(make_input<T>(device, count, op));
    buffers.push_back(tensors.back()->data());
  }
  Call call;
  call.name = name;
  call.fill = [=] {
    for (const auto& tensor : tensors) tensor->fill();
  };
  call.spoil = [] {};  // in place
  call.verify = [=] {
    for (const auto& tensor : tensors)
      tensor->expect(name, [&](std::size_t i) { return reduced_at<T>(group.ranks, i, op); });
  };
  call.run = [=](const hvd_options* options) {
    return hvd_grouped_allreduce(counts.size(), buffers.data(), buffers.data(), counts.data(),
                                 Element<T>::type, op, options);
  };
  call.submit = [=](const hvd_options* options, hvd_handle* handle) {
    return hvd_grouped_allreduce_async(counts.size(), buffers.data(), buffers.data(), counts.data(),
                                       Element<T>::type, op, options, handle);
  };
  return call;
}

template <class T>
Call make_broadcast(Device& device, int root, std::size_t count) {
  const std::string name = "broadcast from " + std::to_string(root) + " of " +
                           std::to_string(count) + " " + Element<T>::name;
  const auto tensor = make_input<T>(device, count, HVD_SUM);
  Call call = make_call(name, tensor, tensor, [=] {
    tensor->expect(
        name, [&](std::size_t i) { return to_number(to_element<T>(number_at(root, i, HVD_SUM))); });
  });
  set_ways(call, hvd_broadcast, hvd_broadcast_async, tensor->data(), count, Element<T>::type, root);
  return call;
}

// Whether all ranks have the same number of rows. NCCL has a separate call for equal rows.
enum class Rows { equal, uneven };

const char* describe(Rows rows) {
  return rows == Rows::equal ? " in equal rows" : " in uneven rows";
}

// Gathers two rows from each rank, or as many as its position: none from the first.
template <class T>
Call make_allgather(Device& device, const Group& group, Rows rows, std::size_t row) {
  const std::string name = std::string("allgather of ") + Element<T>::name + describe(rows);
  const auto rows_of = [=](std::size_t position) {
    return rows == Rows::equal ? std::size_t{2} : position;
  };
  std::vector<double> wanted;
  for (std::size_t from = 0; from < group.size(); ++from) {
    for (std::size_t i = 0; i < rows_of(from) * row; ++i)
      wanted.push_back(to_number(to_element<T>(number_at(group.ranks[from], i, HVD_SUM))));
  }
  const std::size_t own = rows_of(group.position());
  const auto input = make_input<T>(device, own * row, HVD_SUM);
  const auto output = make_output<T>(device, wanted.size());
  const std::size_t all = wanted.size() / row;
  Call call = make_call(name, input, output, [=, wanted = std::move(wanted)] {
    output->expect(name, [&](std::size_t i) { return wanted[i]; });
  });
  set_ways(call, hvd_allgather, hvd_allgather_async, input->data(), own, row, Element<T>::type,
           output->data(), all, static_cast<std::size_t*>(nullptr));
  return call;
}

// Scatters two rows to each rank. With uneven rows, the first rank gets one more.
template <class T>
Call make_reducescatter(Device& device, const Group& group, hvd_op op, Rows rows, std::size_t row) {
  const std::string name = describe<T>("reducescatter", op, row) + describe(rows);
  const std::size_t position = group.position(), more = rows == Rows::uneven ? 1 : 0;
  const std::size_t all = 2 * group.size() + more, own = position == 0 ? 2 + more : 2;
  const std::size_t first = position == 0 ? 0 : 2 * position + more;
  const auto input = make_input<T>(device, all * row, op);
  const auto output = make_output<T>(device, own * row);
  Call call = make_call(name, input, output, [=] {
    output->expect(name,
                   [&](std::size_t i) { return reduced_at<T>(group.ranks, first * row + i, op); });
  });
  set_ways(call, hvd_reducescatter, hvd_reducescatter_async, input->data(), all, row,
           Element<T>::type, op, output->data());
  return call;
}

// Sends two rows from every rank to each, or as many as the receiver's position.
template <class T>
Call make_alltoall(Device& device, const Group& group, Rows rows, std::size_t row) {
  const std::string name = std::string("alltoall of ") + Element<T>::name + describe(rows);
  const auto splits = std::make_shared<std::vector<std::size_t>>(group.size(), 2);
  if (rows == Rows::uneven) std::iota(splits->begin(), splits->end(), std::size_t{0});
  const auto before_own = splits->begin() + static_cast<std::ptrdiff_t>(group.position());
  const std::size_t sent = std::accumulate(splits->begin(), splits->end(), std::size_t{0});
  const std::size_t skipped = std::accumulate(splits->begin(), before_own, std::size_t{0});
  const std::size_t from_each = *before_own;
  const auto input = make_input<T>(device, sent * row, HVD_SUM);
  const auto output = make_output<T>(device, group.size() * from_each * row);
  Call call = make_call(name, input, output, [=] {
    static_cast<void>(splits);  // keeps them alive until the call is done
    output->expect(name, [&](std::size_t i) {
      const std::size_t from = i / (from_each * row);
      const std::size_t place = skipped * row + i % (from_each * row);
      return to_number(to_element<T>(number_at(group.ranks[from], place, HVD_SUM)));
    });
  });
  const std::size_t* const given = rows == Rows::equal ? nullptr : splits->data();
  set_ways(call, hvd_alltoall, hvd_alltoall_async, input->data(), given, sent, row,
           Element<T>::type, output->data(), group.size() * from_each,
           static_cast<std::size_t*>(nullptr));
  return call;
}

// Makes an allreduce whose result is `factor` times the sum, or another op of `factor` times the
// inputs.
template <class T>
Call make_factors(Device& device, const Group& group, hvd_op op, double before, double after,
                  double tolerance) {
  const std::string name = describe<T>("allreduce with factors", op, 1000);
  const auto tensor = make_input<T>(device, 1000, op);
  Call call = make_call(name, tensor, tensor, [=] {
    tensor->expect(
        name, [&](std::size_t i) { return reduced_at<T>(group.ranks, i, op) * before * after; },
        tolerance);
  });
  set_ways(call, hvd_allreduce, hvd_allreduce_async, tensor->data(), tensor->data(),
           std::size_t{1000}, Element<T>::type, op);
  call.prescale = before;
  call.postscale = after;
  return call;
}

Call make_compressed(Device& device, const Group& group, std::int32_t form, std::size_t count) {
  const std::string name = "allreduce with compression " + std::to_string(form);
  const auto tensor = make_input<float>(device, count, HVD_SUM);
  Call call = make_call(name, tensor, tensor, [=] {
    tensor->expect(
        name, [&](std::size_t i) { return reduced_at<float>(group.ranks, i, HVD_SUM); }, 0.1);
  });
  set_ways(call, hvd_allreduce, hvd_allreduce_async, tensor->data(), tensor->data(), count,
           HVD_FLOAT32, HVD_SUM);
  call.compression = form;
  return call;
}

// Makes an allreduce with Adasum. For equal tensors its result is that tensor. For tensors without
// a common element it is their sum.
template <class T>
Call make_adasum(Device& device, const Group& group, std::size_t count, bool equal) {
  const std::string name =
      describe<T>("allreduce", HVD_ADASUM, count) + (equal ? ", equal" : ", apart");
  const auto number = [](std::size_t i) { return number_at(0, i, HVD_SUM); };
  const std::size_t size = group.size(), position = group.position();
  const auto tensor = make_tensor<T>(device, count, [&](std::size_t i) {
    return equal || i % size == position ? number(i) : 0.0;
  });
  Call call = make_call(name, tensor, tensor, [=] { tensor->expect(name, number); });
  set_ways(call, hvd_allreduce, hvd_allreduce_async, tensor->data(), tensor->data(), count,
           Element<T>::type, HVD_ADASUM);
  return call;
}

bool has(hvd_op op, bool is_bool) {
  return !is_bool || op != HVD_AVERAGE;
}

// Makes calls of every collective with every type and operation, with at most `count` elements.
std::vector<Call> make_all(Device& device, const Group& group, std::size_t count) {
  std::vector<Call> calls;
  const std::size_t row = count / (2 * group.size() + 1) + 1;
  for_each_type([&]<class T>() {
    for (const hvd_op op : kOps) {
      if (!has(op, kIsBool<T>)) continue;
      calls.push_back(make_allreduce<T>(device, group, op, count, true));
      calls.push_back(make_allreduce<T>(device, group, op, count, false));
      for (const Rows rows : {Rows::equal, Rows::uneven})
        calls.push_back(make_reducescatter<T>(device, group, op, rows, row));
      if (op == HVD_SUM || op == HVD_MAX)
        calls.push_back(make_grouped_allreduce<T>(device, group, op, count));
    }
    for (const int root : std::set<int>{group.ranks.front(), group.ranks.back()})
      calls.push_back(make_broadcast<T>(device, root, count));
    for (const Rows rows : {Rows::equal, Rows::uneven}) {
      calls.push_back(make_allgather<T>(device, group, rows, row));
      calls.push_back(make_alltoall<T>(device, group, rows, row));
    }
    if constexpr (kIsFloat<T>) {
      if ((group.size() & (group.size() - 1)) != 0) return;
      for (const bool equal : {true, false})
        calls.push_back(make_adasum<T>(device, group, count, equal));
    }
  });
  return calls;
}

// Makes calls with factors that NCCL can apply, and with those that it cannot: with a half type and
// with max. The tolerance is the rounding of a half type, once for each step.
std::vector<Call> make_special(Device& device, const Group& group, std::size_t most) {
  std::vector<Call> calls;
  calls.push_back(make_factors<float>(device, group, HVD_SUM, 0.5, 4, 1e-6));
  calls.push_back(make_factors<float>(device, group, HVD_AVERAGE, 1.0 / 3, 1, 1e-6));
  calls.push_back(make_factors<double>(device, group, HVD_SUM, 1.0 / 7, 7, 1e-14));
  calls.push_back(make_factors<float>(device, group, HVD_MAX, 0.5, 4, 1e-6));
  calls.push_back(make_factors<std::int32_t>(device, group, HVD_SUM, 2, 1, 0));
  calls.push_back(make_factors<hvd::float16>(device, group, HVD_SUM, 0.1, 1, 0x1p-8));
  calls.push_back(make_factors<hvd::bfloat16>(device, group, HVD_SUM, 1.0 / 3, 1, 0x1p-5));
  for (const std::int32_t form :
       {HVD_COMPRESSION_FLOAT16, HVD_COMPRESSION_BFLOAT16, HVD_COMPRESSION_INT8})
    calls.push_back(make_compressed(device, group, form, most));
  return calls;
}

// Makes calls for as many small tensors as a network has. libhvd's kernel packs them.
std::vector<Call> make_many(Device& device, const Group& group) {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < 161; ++i) {
    calls.push_back(make_allreduce<float>(device, group, HVD_SUM, 1 + 37 * i, true));
    calls.back().name += ", layer " + std::to_string(i);
  }
  return calls;
}

hvd_options options_of(const Device& device, const Group& group, const Call& call) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = call.name.c_str();
  options.prescale = call.prescale;
  options.postscale = call.postscale;
  options.compression = call.compression;
  options.process_set = group.set;
  options.memory = HVD_CUDA;
  options.stream = device.stream();
  return options;
}

// Runs the calls one after the other. If the GPU is `late`, calls return before their inputs are
// written.
std::size_t run_blocking(Device& device, const Group& group, const std::vector<Call>& calls,
                         bool late) {
  for (const Call& call : calls) {
    const hvd_options options = options_of(device, group, call);
    if (late) device.delay();
    call.fill();
    check(call.run(&options), call.name);
    call.spoil();
    call.verify();
  }
  return calls.size();
}

// Submits all calls at once, on odd ranks in reverse order.
std::size_t run_in_background(Device& device, const Group& group, const std::vector<Call>& calls) {
  std::vector<hvd_handle> handles(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::size_t place = hvd_rank() % 2 == 0 ? i : calls.size() - 1 - i;
    const Call& call = calls[place];
    const hvd_options options = options_of(device, group, call);
    call.fill();
    check(call.submit(&options, &handles[place]), call.name + " in the background");
  }
  for (std::size_t i = 0; i < calls.size(); ++i)
    check(hvd_wait(handles[i]), calls[i].name + " in the background");
  for (const Call& call : calls) call.verify();
  return calls.size();
}

// Checks a set with only the first rank, and one with every second rank from the last.
std::size_t check_process_sets(Device& device) {
  std::size_t done = 0;
  Group every_second;
  for (int rank = hvd_size() - 1; rank >= 0; rank -= 2)
    every_second.ranks.insert(every_second.ranks.begin(), rank);
  for (Group group : {Group{0, {0}}, every_second}) {
    check(hvd_add_process_set(group.ranks.data(), group.size(), &group.set), "add_process_set");
    if (group.position() < group.size())
      done += run_blocking(device, group, make_all(device, group, 100), false);
    check(hvd_barrier(nullptr), "barrier");
    check(hvd_remove_process_set(group.set), "remove_process_set");
  }
  return done;
}

}  // namespace

std::size_t check_collectives(Device& device, std::size_t most) {
  const Group group = all_ranks();
  std::size_t done = run_blocking(device, group, make_all(device, group, 1000), true);
  done += run_blocking(device, group, make_all(device, group, most), false);
  done += run_blocking(device, group, make_special(device, group, most), false);
  done += run_in_background(device, group, make_all(device, group, 1000));
  done += run_in_background(device, group, make_many(device, group));
  return done + check_process_sets(device);
}

void check_join(Device& device) {
  if (hvd_rank() == 0) {
    for (const hvd_op op : {HVD_SUM, HVD_AVERAGE}) {
      const auto tensor = make_input<float>(device, 1000, HVD_SUM);
      const double divisor = op == HVD_AVERAGE ? hvd_size() : 1;
      Call call = make_call("allreduce after the others have joined", tensor, tensor, [=] {
        tensor->expect("allreduce after the others have joined",
                       [&](std::size_t i) { return number_at(0, i, HVD_SUM) / divisor; });
      });
      set_ways(call, hvd_allreduce, hvd_allreduce_async, tensor->data(), tensor->data(),
               std::size_t{1000}, HVD_FLOAT32, op);
      run_blocking(device, all_ranks(), {call}, true);
    }
  }
  int last = -1;
  check(hvd_join(&last), "join");
  if (last < 0 || last >= hvd_size()) die("join", "no rank was the last");
}

}  // namespace gpu_check
