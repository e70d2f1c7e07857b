// Checkpoints for C++20: hvd/checkpoint.h with owners, types and exceptions (hvd::Error). Header
// only. checkpoint.h says what each call does and which are collectives.
//
//   hvd::Checkpoints checkpoints("folder", {.keep_last = 3, .best = hvd::Best::min});
//   hvd::State state;                              // names for variables; copies nothing
//   state.add("weights", weights);                 // std::vector<float>
//   state.add("epoch", epoch);                     // a number
//   state.add("random", random_state);             // std::string: bytes of any number
//   if (auto loaded = checkpoints.load(state)) std::cout << "resuming at " << loaded->step;
//   ...
//   checkpoints.save(state, step, validation_loss);   // returns at once; written in the background
//   checkpoints.wait();                               // at the end; throws if that failed
#ifndef HVD_CHECKPOINT_HPP_
#define HVD_CHECKPOINT_HPP_

#include "hvd/checkpoint.h"
#include "hvd/hvd.hpp"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hvd {
namespace detail {

// Returns the hvd_item_type of T; -1 if there is none.
template <class T>
consteval hvd_item_type find_item_type() {
  if (find_type<T>() >= 0) return find_type<T>();
  if (std::unsigned_integral<T> && sizeof(T) == 4) return HVD_ITEM_UINT32;
  if (std::unsigned_integral<T> && sizeof(T) == 8) return HVD_ITEM_UINT64;
  if (std::same_as<T, std::complex<float>>) return HVD_ITEM_COMPLEX64;
  if (std::same_as<T, std::complex<double>>) return HVD_ITEM_COMPLEX128;
  return -1;
}

}  // namespace detail

// A type whose values a checkpoint can hold.
template <class T>
concept Storable = detail::find_item_type<T>()
>= 0;

// Names for a program's variables. The program keeps the variables: a save reads them and a load
// writes them, so they must live as long as the State is used.
class State {
 public:
  // Adds a tensor. Without a shape it has one dimension.
  template <Storable T, std::size_t N>
  void add(std::string name, std::span<T, N> values, std::vector<std::int64_t> shape = {}) {
    add_tensor<T>(std::move(name), std::move(shape),
                  [values](hvd_tensor_view& item) { fill(item, values.data(), values.size()); });
  }

  // Adds a vector as a tensor. It may move and grow between calls. For a load it must have the size
  // that it has in the checkpoint.
  template <Storable T>
  requires(!std::same_as<T, bool>) void add(std::string name, std::vector<T>& values,
                                            std::vector<std::int64_t> shape = {}) {
    add_tensor<T>(std::move(name), std::move(shape),
                  [&values](hvd_tensor_view& item) { fill(item, values.data(), values.size()); });
  }

  // Adds one number.
  template <Storable T>
  void add(std::string name, T& value) {
    entries_.push_back(
        {std::move(name), detail::find_item_type<T>(), true, {}, [&value](hvd_tensor_view& item) {
           fill(item, &value, 1);
         }});
  }

  // Adds a string of bytes, which a load resizes: a serialised random state, a vocabulary, JSON.
  void add(std::string name, std::string& bytes) {
    entries_.push_back({std::move(name), HVD_ITEM_BYTES, true, {}, [&bytes](hvd_tensor_view& item) {
                          fill(item, bytes.data(), bytes.size());
                          item.resize = resize_string;
                          item.context = &bytes;
                        }});
  }

  // Returns the items for the C ABI, as the variables are now. Valid until the State or a variable
  // changes.
  std::span<const hvd_tensor_view> items() const {
    items_.clear();
    for (const Entry& entry : entries_) {
      hvd_tensor_view item{};
      item.name = entry.name.c_str();
      item.type = entry.type;
      entry.bind(item);
      items_.push_back(item);
    }
    shapes_.clear();
    for (std::size_t i = 0; i < entries_.size(); ++i) shapes_.push_back(shape_of(i));
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      items_[i].shape = shapes_[i].data();
      items_[i].dims = static_cast<std::int32_t>(shapes_[i].size());
    }
    return items_;
  }

 private:
  using Shape = std::vector<std::int64_t>;

  struct Entry {
    std::string name;
    hvd_item_type type;
    bool no_dimensions;  // one number, or bytes
    Shape shape;         // empty: one dimension, unless no_dimensions
    std::function<void(hvd_tensor_view&)> bind;
    std::size_t element_bytes = 1;
  };

  template <class T>
  void add_tensor(std::string name, Shape shape, std::function<void(hvd_tensor_view&)> bind) {
    entries_.push_back({std::move(name), detail::find_item_type<T>(), false, std::move(shape),
                        std::move(bind), sizeof(T)});
  }

  template <class T>
  static void fill(hvd_tensor_view& item, T* data, std::size_t count) {
    item.data = data;
    item.bytes = count * sizeof(T);
  }

  static void* resize_string(void* context, std::size_t bytes) {
    try {
      auto& text = *static_cast<std::string*>(context);
      text.resize(bytes);
      return text.data();
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  Shape shape_of(std::size_t index) const {
    const Entry& entry = entries_[index];
    if (entry.no_dimensions || !entry.shape.empty()) return entry.shape;
    return {static_cast<std::int64_t>(items_[index].bytes / entry.element_bytes)};
  }

  std::vector<Entry> entries_;
  mutable std::vector<hvd_tensor_view> items_;
  mutable std::vector<Shape> shapes_;
};

// Which checkpoint to load or find; see hvd_which.
enum class Which : hvd_which { newest = HVD_NEWEST, best = HVD_THE_BEST };

inline constexpr int keep_all = HVD_KEEP_ALL;

// See hvd_checkpoints_options.
struct CheckpointOptions {
  int keep_last = 3;       // or keep_all
  Best best = Best::none;  // also keeps the one with the best metric
  bool sharded = false;    // each rank writes a part
  bool read_only = false;  // only loads; works beside a running job
};

struct Loaded {
  std::uint64_t step = 0;
  std::optional<double> metric;
  std::string path;
};

// Describes an item of a checkpoint.
struct ItemInfo {
  std::string name;
  hvd_item_type type = 0;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
};

struct Found : Loaded {
  std::vector<ItemInfo> items;
};

// A folder of checkpoints, locked while this object lives. See hvd/checkpoint.h.
class Checkpoints {
 public:
  // Opens the folder. A collective.
  explicit Checkpoints(const std::string& folder, const CheckpointOptions& options = {}) {
    hvd_checkpoints_options plain{};
    plain.struct_size = sizeof plain;
    plain.keep_last = options.keep_last;
    plain.best = static_cast<hvd_best>(options.best);
    plain.sharded = options.sharded ? 1 : 0;
    plain.read_only = options.read_only ? 1 : 0;
    hvd_checkpoints* handle = nullptr;
    detail::check(hvd_checkpoints_open(folder.c_str(), &plain, &handle));
    handle_.reset(handle);
  }

  // Copies the state and returns; a background thread writes it. A collective. Throws if the
  // checkpoint before could not be written; this one is written nevertheless.
  void save(const State& state, std::uint64_t step, std::optional<double> metric = {}) {
    const auto items = state.items();
    detail::check(hvd_checkpoints_save(handle_.get(), items.data(), items.size(), step,
                                       metric ? &*metric : nullptr));
  }

  // Loads into the state of all ranks. Returns nullopt if there is no checkpoint. A collective.
  std::optional<Loaded> load(State& state, Which which = Which::newest) {
    const auto items = state.items();
    hvd_checkpoint checkpoint = empty();
    detail::check(hvd_checkpoints_load(handle_.get(), items.data(), items.size(),
                                       static_cast<hvd_which>(which), &checkpoint));
    if (checkpoint.found == 0) return std::nullopt;
    return describe(checkpoint);
  }

  // Finds a checkpoint without loading it. Returns nullopt if there is none. A collective.
  std::optional<Found> find(Which which = Which::newest) {
    hvd_checkpoint checkpoint = empty();
    detail::check(hvd_checkpoints_find(handle_.get(), static_cast<hvd_which>(which), &checkpoint));
    if (checkpoint.found == 0) return std::nullopt;
    Found found{describe(checkpoint), {}};
    for (std::size_t index = 0; index < checkpoint.items; ++index) {
      hvd_tensor_view item{};
      detail::check(hvd_checkpoints_item(handle_.get(), index, &item));
      found.items.push_back(
          {item.name, item.type, {item.shape, item.shape + item.dims}, item.bytes});
    }
    return found;
  }

  // Waits until the last save is durable. Throws if it could not be written. A collective.
  void wait() { detail::check(hvd_checkpoints_wait(handle_.get())); }

  // Finishes this rank's writing and unlocks the folder. Do not use the object afterwards. Not a
  // collective. The destructor does the same, but prints an error to stderr.
  void close() { detail::check(hvd_checkpoints_close(handle_.release())); }

 private:
  struct Close {
    void operator()(hvd_checkpoints* handle) const {
      if (hvd_checkpoints_close(handle) != HVD_OK)
        std::fprintf(stderr, "hvd: %s\n", hvd_last_error());
    }
  };

  static hvd_checkpoint empty() {
    hvd_checkpoint checkpoint{};
    checkpoint.struct_size = sizeof checkpoint;
    return checkpoint;
  }

  static Loaded describe(const hvd_checkpoint& checkpoint) {
    Loaded loaded{checkpoint.step, std::nullopt, checkpoint.path};
    if (checkpoint.has_metric != 0) loaded.metric = checkpoint.metric;
    return loaded;
  }

  std::unique_ptr<hvd_checkpoints, Close> handle_;
};

}  // namespace hvd

#endif  // HVD_CHECKPOINT_HPP_
