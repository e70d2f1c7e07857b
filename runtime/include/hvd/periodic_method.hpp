// The base of the training methods whose ranks take steps of their own, and exchange parameters at
// the end of each period (local_steps.hpp): steps, periods, averages and the saved state. A part of
// methods.hpp.
//
// An object belongs to one thread; libhvd's threads compute the averages. Errors are hvd::Error. An
// exchange that failed has changed no parameter, and the next period begins.
#ifndef HVD_PERIODIC_METHOD_HPP_
#define HVD_PERIODIC_METHOD_HPP_

#include "hvd/method_support.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd::detail {

// The average of tensors over the ranks of a set that have not joined, in the background and in
// place. The tensors must stay until wait() has returned.
class Mean {
 public:
  Mean(const Tensors& tensors, const std::string& name, ProcessSet on = {},
       Compression compression = Compression::none)
      : tensors_(tensors), ranks_(on.size()) {
    // A rank that has joined contributes zeros, also to this one, and the divisor stays the number
    // of all ranks. It is sent by itself, so that no compression rounds it.
    Options options(name + ".present");
    options.on = on;
    present_done_ = allreduce_async(std::span(&present_, 1), Op::average, options);
    options.name = name;
    options.compression = compression;
    options.gradients = true;
    done_ =
        grouped_allreduce_async(std::span<const std::span<float>>(tensors_), Op::average, options);
  }

  // Waits until the tensors are the averages. Does nothing when called again.
  void wait() {
    if (!done_.valid()) return;
    done_.wait();
    present_done_.wait();
    const auto present = std::lround(present_ * static_cast<float>(ranks_));
    if (present >= ranks_) return;
    const float factor = static_cast<float>(ranks_) / static_cast<float>(present);
    for (const std::span<float>& tensor : tensors_)
      for (float& value : tensor) value *= factor;
  }

 private:
  Tensors tensors_;
  long ranks_;
  float present_ = 1;
  Future<> present_done_;  // after the values, so that these still exist when it is waited for
  Future<> done_;
};

// An exchange in flight. Flat copies of the parameters, with the tensors one after the other.
struct Exchange {
  std::vector<float> start;            // when it began; empty if it is waited for at once
  std::vector<float> means;            // what is averaged; empty: the parameters themselves
  std::unique_ptr<Mean> running = {};  // null: done
};

// What the methods need to begin: their settings, and what is wrong with them.
struct Periods {
  std::int64_t every;
  bool background;
  Compression compression = Compression::none;
  std::vector<Described> more = {};
  std::string problem = {};
};

// The base class: steps, periods and the saved state.
class PeriodicMethod {
 public:
  // Records a step that the program's optimizer has taken. At the end of a period, exchanges with
  // other ranks and changes the parameters. Errors only there.
  void step() {
    if (++position_ < every_) return;
    position_ = 0;
    const std::int64_t exchange = periods_++;
    if (background_) apply();
    exchange_ = begin(exchange, background_);
    if (!background_) apply();
  }

  // Ends the period early: afterwards all ranks have the same parameters. For the end of the
  // training, and before an evaluation. First applies an exchange that is in flight.
  void synchronize() {
    apply();
    exchange_ = begin(std::nullopt, false);
    apply();
    position_ = 0;
    ++periods_;
  }

  // Returns the state of all ranks, for a checkpoint: State::add(name, string). It has the
  // parameters of every rank, and waits for an exchange in flight. `own`: what each rank has for
  // itself, as the momentum of its optimizer; it is saved for every rank.
  std::string state(const State& own = {}) {
    if (exchange_ && exchange_->running) exchange_->running->wait();
    Writer mine;
    mine.add(std::span<const float>(flattened(model_.tensors(), model_.total())));
    mine.add(exchange_ ? 1 : 0);
    if (exchange_) {
      mine.add(std::span<const float>(exchange_->start));
      mine.add(std::span<const float>(exchange_->means));
    }
    for (const hvd_tensor_view& item : own.items()) {
      mine.add(item.name);
      mine.add(item.type);
      mine.add(std::string(static_cast<const char*>(item.data), item.bytes));
    }
    Writer framed;
    framed.add(mine.bytes());
    const std::vector<char> all = gather_bytes(framed, name_ + ".state");
    Writer state;
    state.add(saved_settings());
    state.add(position_);
    state.add(periods_);
    state.add(std::span<const float>(shared()));
    state.add(size());
    state.add_bytes(all.data(), all.size());
    return state.bytes();
  }

  // Continues from what state() has returned, with the same number of ranks as if the training had
  // not stopped. Sets the parameters and `own` of this rank. With another number of ranks, all
  // begin with the average of the parameters, at the same place in the period, and `own` is that of
  // one of the ranks. "": begins a period with the parameters that the program has loaded. Error:
  // saved with other settings or another model; then nothing is changed.
  void load(const std::string& saved, const State& own = {}) {
    if (saved.empty()) {
      position_ = periods_ = 0;
      exchange_.reset();
      start_over();
      return;
    }
    Reader reader(saved);
    check_saved(method_, reader.list(), saved_settings());
    const std::int64_t position = reader.number();
    const std::int64_t periods = reader.number();
    const std::vector<float> common = reader.floats();
    std::vector<RankState> ranks;
    for (std::int64_t left = reader.number(); left > 0; --left)
      ranks.push_back(read_rank(reader.text()));
    if (ranks.empty() || common.size() != shared().size()) refuse_damaged();
    const RankState mine = state_of_this_rank(ranks);
    check_own(mine.own, own);
    position_ = position;
    periods_ = periods;
    load_shared(common);
    unflatten(mine.parameters, model_.tensors());
    exchange_.reset();
    if (mine.in_flight) exchange_ = Exchange{mine.start, mine.means};
    put_own(mine.own, own);
  }

  PeriodicMethod(const PeriodicMethod&) = delete;
  PeriodicMethod& operator=(const PeriodicMethod&) = delete;

 protected:
  // A collective. Errors, on all ranks: settings or parameters are not valid, or differ.
  PeriodicMethod(const char* method, const State& parameters, const Periods& periods)
      : method_(method),
        model_(parameters),
        every_(periods.every),
        background_(periods.background),
        compression_(periods.compression) {
    settings_ = {{"method", method},
                 {"every", std::to_string(every_)},
                 {"background", background_ ? "true" : "false"}};
    settings_.insert(settings_.end(), periods.more.begin(), periods.more.end());
    Offer offer{0, periods.problem, settings_, model_.described()};
    offer.settings.push_back(
        {"compression", std::to_string(static_cast<std::int32_t>(compression_))});
    if (every_ < 1)
      offer.problem = "every is " + std::to_string(every_) + ", but must be at least 1";
    if (offer.problem.empty()) offer.problem = model_.problem();
    name_ = method_ + "." + std::to_string(agree_settings(method_, offer));
  }
  virtual ~PeriodicMethod() = default;

  // Starts the exchange of this number; nullopt: one of all ranks, for synchronize(). Returns
  // nullopt if this rank pauses. `copy`: the parameters change while the exchange runs.
  virtual std::optional<Exchange> begin(std::optional<std::int64_t> exchange, bool copy) = 0;
  // Changes the parameters after an exchange.
  virtual void change(const Exchange& exchange) = 0;
  // Returns the further state of the method, which is the same on all ranks.
  virtual std::vector<float> shared() const { return {}; }
  virtual void load_shared(const std::vector<float>&) {}
  // Begins as a new object with the present parameters.
  virtual void start_over() {}

  const Model& model() const { return model_; }
  const std::string& name() const { return name_; }
  Compression compression() const { return compression_; }

 private:
  // A rank's own part of the state.
  struct Item {
    std::string name;
    std::int64_t type;
    std::string bytes;
  };
  struct RankState {
    std::vector<float> parameters;
    bool in_flight = false;
    std::vector<float> start;
    std::vector<float> means;
    std::vector<Item> own;
  };

  void apply() {
    if (!exchange_) return;
    const Exchange exchange = std::move(*exchange_);
    exchange_.reset();
    if (exchange.running) exchange.running->wait();
    change(exchange);
  }

  std::vector<Described> saved_settings() const {
    std::vector<Described> all = settings_;
    for (const Described& entry : model_.described())
      all.push_back({"the parameter " + entry.name, entry.value});
    return all;
  }

  [[noreturn]] void refuse_damaged() const {
    refuse("hvd::" + method_ + ": the saved state is damaged");
  }

  RankState read_rank(const std::string& bytes) const {
    Reader reader(bytes);
    RankState state;
    state.parameters = reader.floats();
    state.in_flight = reader.number() != 0;
    if (state.in_flight) {
      state.start = reader.floats();
      state.means = reader.floats();
    }
    while (!reader.at_end()) {
      std::string name = reader.text();
      const std::int64_t type = reader.number();
      state.own.push_back({std::move(name), type, reader.text()});
    }
    const std::size_t total = model_.total();
    if (state.parameters.size() != total ||
        (state.in_flight && (state.start.size() != total || state.means.size() != total)))
      refuse_damaged();
    return state;
  }

  RankState state_of_this_rank(const std::vector<RankState>& ranks) const {
    const auto own = static_cast<std::size_t>(rank());
    if (ranks.size() == static_cast<std::size_t>(size())) return ranks[own];
    RankState state;
    state.own = ranks[own % ranks.size()].own;
    state.in_flight = true;
    for (const RankState& theirs : ranks) state.in_flight = state.in_flight && theirs.in_flight;
    state.parameters = average_of(ranks, &RankState::parameters);
    if (state.in_flight) {
      state.start = average_of(ranks, &RankState::start);
      state.means = average_of(ranks, &RankState::means);
    }
    return state;
  }

  static std::vector<float> average_of(const std::vector<RankState>& ranks,
                                       std::vector<float> RankState::*values) {
    std::vector<float> average(ranks[0].parameters.size());
    for (std::size_t i = 0; i < average.size(); ++i) {
      double sum = 0;
      for (const RankState& theirs : ranks) sum += (theirs.*values)[i];
      average[i] = static_cast<float>(sum / static_cast<double>(ranks.size()));
    }
    return average;
  }

  void check_own(const std::vector<Item>& saved, const State& own) const {
    const auto items = own.items();
    bool same = saved.size() == items.size();
    for (std::size_t i = 0; same && i < items.size(); ++i) {
      same = saved[i].name == items[i].name && saved[i].type == items[i].type &&
             (saved[i].bytes.size() == items[i].bytes || items[i].resize != nullptr);
    }
    if (!same)
      refuse("hvd::" + method_ +
             ": the state was saved with other variables of each rank; load it with those that "
             "state() got");
  }

  static void put_own(const std::vector<Item>& saved, const State& own) {
    const auto items = own.items();
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string& bytes = saved[i].bytes;
      void* const to = items[i].resize != nullptr ? items[i].resize(items[i].context, bytes.size())
                                                  : items[i].data;
      if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    }
  }

  std::string method_;
  Model model_;
  std::int64_t every_;
  bool background_;
  Compression compression_;
  std::vector<Described> settings_;  // what a saved state must have been saved with
  std::string name_;                 // of its collectives
  std::int64_t position_ = 0;        // steps done in the present period, 0 to every - 1
  std::int64_t periods_ = 0;         // periods that have ended
  std::optional<Exchange> exchange_;
};

// Averages the parameters themselves. A derived class chooses the ranks.
class AveragingMethod : public PeriodicMethod {
 protected:
  using PeriodicMethod::PeriodicMethod;

  // Starts the average of an exchange. Returns null if this rank pauses.
  virtual std::unique_ptr<Mean> mean(const Tensors& tensors, std::int64_t exchange) = 0;

 private:
  std::optional<Exchange> begin(std::optional<std::int64_t> exchange, bool copy) final {
    Exchange made;
    Tensors averaged = model().tensors();
    if (copy) {
      made.start = flattened(averaged, model().total());
      made.means = made.start;
      averaged = parts_of(made.means, model().sizes());
    }
    made.running =
        exchange ? mean(averaged, *exchange) : std::make_unique<Mean>(averaged, name() + ".all");
    if (made.running == nullptr) return std::nullopt;
    return made;
  }

  void change(const Exchange& exchange) final {
    const float* before = exchange.start.data();
    const float* average = exchange.means.data();
    if (exchange.start.empty()) return;  // the parameters are the averages
    for (const std::span<float>& tensor : model().tensors())
      for (float& value : tensor) value += *average++ - *before++;
  }
};

}  // namespace hvd::detail

#endif  // HVD_PERIODIC_METHOD_HPP_
