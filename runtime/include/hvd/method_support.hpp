// What the training methods of methods.hpp share: the tensors of a model, the comparison of the
// ranks' settings, and the bytes of a saved state. A part of methods.hpp; programs do not use it
// directly. Errors are hvd::Error.
#ifndef HVD_METHOD_SUPPORT_HPP_
#define HVD_METHOD_SUPPORT_HPP_

#include "hvd/checkpoint.hpp"
#include "hvd/hvd.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd {

// The tensors of a model, or their gradients.
using Tensors = std::vector<std::span<float>>;

namespace detail {

// ---- The tensors of a model ---------------------------------------------------------------------

// A setting of a method, or a parameter of the model, with its value in words.
struct Described {
  std::string name;
  std::string value;
  bool operator==(const Described&) const = default;
};

inline std::string shape_text(const hvd_tensor_view& item) {
  std::string text;
  for (std::int32_t i = 0; i < item.dims; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(item.shape[i]);
  return "[" + text + "]";
}

// The program's variables with a model. They may move between calls, but keep their size.
class Model {
 public:
  explicit Model(const State& state) : state_(state) {
    for (const hvd_tensor_view& item : state_.items()) {
      if (item.type != HVD_FLOAT32 && problem_.empty())
        problem_ = std::string("the parameter ") + item.name + " does not have the type float";
      described_.push_back({item.name, "float32 of shape " + shape_text(item)});
      sizes_.push_back(item.bytes / sizeof(float));
      total_ += sizes_.back();
    }
    if (sizes_.empty()) problem_ = "there are no parameters";
  }

  // Returns what is wrong with the model; "" if nothing is.
  const std::string& problem() const { return problem_; }
  // Returns the name of each tensor, and its type and shape in words.
  const std::vector<Described>& described() const { return described_; }
  const std::vector<std::size_t>& sizes() const { return sizes_; }
  // Returns the number of elements of all tensors.
  std::size_t total() const { return total_; }

  // Returns where the tensors are now. Error: one has another size than at the begin.
  Tensors tensors() const {
    Tensors found;
    for (const hvd_tensor_view& item : state_.items()) {
      const std::size_t count = item.bytes / sizeof(float);
      if (count != sizes_[found.size()])
        refuse(std::string("hvd: the parameter ") + item.name + " has changed its size");
      found.emplace_back(static_cast<float*>(item.data), count);
    }
    return found;
  }

 private:
  State state_;
  std::string problem_;
  std::vector<Described> described_;
  std::vector<std::size_t> sizes_;
  std::size_t total_ = 0;
};

// Copies the tensors' elements, one after the other.
inline void flatten(const Tensors& tensors, std::span<float> flat) {
  float* to = flat.data();
  for (const std::span<float>& tensor : tensors) to = std::copy(tensor.begin(), tensor.end(), to);
}
inline std::vector<float> flattened(const Tensors& tensors, std::size_t total) {
  std::vector<float> flat(total);
  flatten(tensors, flat);
  return flat;
}
// Copies the elements back.
inline void unflatten(std::span<const float> flat, const Tensors& tensors) {
  const float* from = flat.data();
  for (const std::span<float>& tensor : tensors) {
    std::copy(from, from + tensor.size(), tensor.data());
    from += tensor.size();
  }
}
// Returns the parts of `flat` that have so many elements each.
inline Tensors parts_of(std::span<float> flat, const std::vector<std::size_t>& sizes) {
  Tensors parts;
  std::size_t begin = 0;
  for (const std::size_t count : sizes) {
    parts.push_back(flat.subspan(begin, count));
    begin += count;
  }
  return parts;
}

// ---- Bytes --------------------------------------------------------------------------------------

// Appends values to a string of bytes, in this machine's order.
class Writer {
 public:
  void add(std::int64_t number) { add_bytes(&number, sizeof number); }
  void add(const std::string& text) {
    add(static_cast<std::int64_t>(text.size()));
    add_bytes(text.data(), text.size());
  }
  void add(std::span<const float> values) {
    add(static_cast<std::int64_t>(values.size()));
    add_bytes(values.data(), values.size_bytes());
  }
  void add(const std::vector<Described>& list) {
    add(static_cast<std::int64_t>(list.size()));
    for (const Described& entry : list) {
      add(entry.name);
      add(entry.value);
    }
  }
  void add_bytes(const void* data, std::size_t size) {
    if (size > 0) bytes_.append(static_cast<const char*>(data), size);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what a Writer has written. Error: the bytes end too early.
class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : rest_(bytes) {}

  std::int64_t number() {
    std::int64_t number = 0;
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }
  std::string text() {
    const auto bytes = take(length(1));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<float> floats() {
    const auto bytes = take(length(sizeof(float)));
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<Described> list() {
    std::vector<Described> list;
    for (std::int64_t left = number(); left > 0; --left) {
      std::string name = text();
      list.push_back({std::move(name), text()});
    }
    return list;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  // Returns the size in bytes of as many elements as the next number says.
  std::size_t length(std::size_t element) {
    const std::int64_t count = number();
    if (count < 0 || static_cast<std::size_t>(count) > rest_.size() / element) too_short();
    return static_cast<std::size_t>(count) * element;
  }
  std::span<const char> take(std::size_t size) {
    if (size > rest_.size()) too_short();
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  [[noreturn]] static void too_short() {
    refuse("hvd: the state of a training method is cut short");
  }

  std::span<const char> rest_;
};

// Returns the bytes of all ranks, rank 0's first. A collective.
inline std::vector<char> gather_bytes(const Writer& own, const std::string& name) {
  const std::string& bytes = own.bytes();
  return allgather_async(std::span(bytes.data(), bytes.size()), Options(name)).get();
}

// ---- Settings -----------------------------------------------------------------------------------

// What a rank sends for the comparison of settings.
struct Offer {
  std::int64_t number = 0;
  std::string problem;
  std::vector<Described> settings;
  std::vector<Described> parameters;
};

inline std::string rank_words(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

// Returns "8 on ranks 0, 1; 4 on rank 2". `values`: of each rank.
inline std::string by_value(const std::vector<std::string>& values) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> groups;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    const auto same = [&](const auto& group) { return group.first == values[rank]; };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(group, {values[rank], {}});
    group->second.push_back(rank);
  }
  std::string text;
  for (const auto& [value, ranks] : groups)
    text += (text.empty() ? "" : "; ") + value + " on " + rank_words(ranks);
  return text;
}

// Returns what differs between the ranks' parameters; "" if nothing does.
inline std::string difference_of_parameters(const std::vector<Offer>& offers) {
  const auto same = [&](const Offer& offer) { return offer.parameters == offers[0].parameters; };
  if (std::all_of(offers.begin(), offers.end(), same)) return "";
  for (const Offer& offer : offers) {
    for (const Described& parameter : offer.parameters) {
      std::vector<std::size_t> having;
      std::vector<std::string> values;
      for (std::size_t rank = 0; rank < offers.size(); ++rank) {
        for (const Described& other : offers[rank].parameters) {
          if (other.name != parameter.name) continue;
          having.push_back(rank);
          values.push_back(other.value);
          break;
        }
      }
      if (having.size() < offers.size()) {
        return "only " + rank_words(having) + " of " + std::to_string(offers.size()) +
               " has the parameter " + parameter.name + "; all ranks must have the same parameters";
      }
      if (std::any_of(values.begin(), values.end(), [&](const auto& v) { return v != values[0]; }))
        return "the parameter " + parameter.name + " differs between ranks: " + by_value(values);
    }
  }
  return "the ranks have the same parameters in another order; add them in the same order";
}

// Compares the settings and parameters of all ranks. A collective. `own.problem`: what this rank
// has found wrong by itself. Returns a number that is the same on all ranks and different at each
// call, for the names of collectives. Errors, on all ranks with the same text: a rank has a
// problem; a setting or a parameter differs.
inline std::int64_t agree_settings(const std::string& method, const Offer& own) {
  static std::atomic<std::int64_t> next{1};
  Writer writer;
  writer.add(next++);
  writer.add(own.problem);
  writer.add(own.settings);
  writer.add(own.parameters);
  const std::vector<char> all = gather_bytes(writer, method + ", settings");
  std::vector<Offer> offers;
  std::int64_t number = 0;
  for (Reader reader(all); !reader.at_end();) {
    Offer offer;
    offer.number = reader.number();
    offer.problem = reader.text();
    offer.settings = reader.list();
    offer.parameters = reader.list();
    number = std::max(number, offer.number);
    offers.push_back(std::move(offer));
  }
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (!offers[rank].problem.empty())
      refuse("hvd::" + method + ": " + offers[rank].problem + " (on rank " + std::to_string(rank) +
             ")");
  }
  std::string difference;
  for (std::size_t i = 0; i < own.settings.size() && difference.empty(); ++i) {
    std::vector<std::string> values;
    for (const Offer& offer : offers) values.push_back(offer.settings[i].value);
    if (std::any_of(values.begin(), values.end(), [&](const auto& v) { return v != values[0]; }))
      difference = own.settings[i].name + " differs between ranks: " + by_value(values) +
                   "; give all ranks the same";
  }
  if (difference.empty()) difference = difference_of_parameters(offers);
  if (!difference.empty())
    throw Error(HVD_ERROR_MISMATCH, ("hvd::" + method + ": " + difference).c_str());
  return number;
}

// Throws an Error if a state was saved with other settings or another model.
inline void check_saved(const std::string& method, const std::vector<Described>& saved,
                        const std::vector<Described>& own) {
  const auto value_in = [](const std::vector<Described>& list, const std::string& name) {
    for (const Described& entry : list)
      if (entry.name == name) return entry.value;
    return std::string("nothing");
  };
  const auto compare = [&](const std::string& name) {
    const std::string theirs = value_in(saved, name), ours = value_in(own, name);
    if (theirs == ours) return;
    refuse("hvd::" + method + ": the state was saved with " + name + " = " + theirs +
           ", but here " + name + " = " + ours +
           "; use the settings and the model of the saved state");
  };
  for (const Described& entry : own) compare(entry.name);
  for (const Described& entry : saved) compare(entry.name);
}

// Returns a process set of these ranks, which are in ascending order: one that exists, or a new
// one. A collective.
inline ProcessSet find_or_add(const std::vector<int>& ranks) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(number(hvd_process_sets(nullptr, 0))));
  number(hvd_process_sets(ids.data(), ids.size()));
  for (const std::int32_t id : ids)
    if (const ProcessSet set = ProcessSet::from_id(id); set.ranks() == ranks) return set;
  return ProcessSet(std::span(ranks));
}

}  // namespace detail
}  // namespace hvd

#endif  // HVD_METHOD_SUPPORT_HPP_
