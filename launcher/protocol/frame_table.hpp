// Tables of frames: each type once, with the message that its payload is and the method that takes
// it. A launcher and an agent have one each. A frame is parsed and dispatched by dispatch(), and
// nowhere else.
//
// Pure functions over constant tables, for any thread.
#pragma once

#include "protocol/frame.hpp"
#include "protocol/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hvdrun {

// `From`: what a method gets before the message, such as the agent that sent the frame.
template <class Owner, class... From>
struct FrameRow {
  FrameType type;
  Result<void> (*take)(Owner& owner, From&... from, const Frame& frame);
};

// The payload as a message: one of messages.hpp, a number, or a text.
template <class Message>
Result<Message> parse_as(std::string_view payload) {
  if constexpr (std::is_same_v<Message, std::uint32_t>)
    return parse_number(payload);
  else if constexpr (std::is_same_v<Message, std::string>)
    return std::string(payload);
  else if constexpr (std::is_same_v<Message, InputCredit>)
    return parse_input_credit(payload);
  else
    return parse<Message>(payload);
}

// Makes the rows of a table.
template <class Owner, class... From>
struct FrameRows {
  // A frame whose message goes to the method, which returns nothing or Result<void>.
  template <class Message, auto method>
  static constexpr FrameRow<Owner, From...> message(FrameType type) {
    return {type, [](Owner& owner, From&... from, const Frame& frame) -> Result<void> {
              HVD_TRY(auto message, parse_as<Message>(frame.payload));
              return call([&] { return (owner.*method)(from..., std::move(message)); });
            }};
  }

  // A frame that the method gets as it is.
  template <auto method>
  static constexpr FrameRow<Owner, From...> whole(FrameType type) {
    return {type, [](Owner& owner, From&... from, const Frame& frame) -> Result<void> {
              return call([&] { return (owner.*method)(from..., frame); });
            }};
  }

  // A frame without payload.
  template <auto method>
  static constexpr FrameRow<Owner, From...> word(FrameType type) {
    return {type, [](Owner& owner, From&... from, const Frame&) -> Result<void> {
              return call([&] { return (owner.*method)(from...); });
            }};
  }

 private:
  template <class Call>
  static Result<void> call(Call&& call) {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return {};
    } else {
      return call();
    }
  }
};

// Returns what became of the frame; nullopt if the table has no row for its type.
template <class Table, class Owner, class... From>
std::optional<Result<void>> dispatch(const Table& table, const Frame& frame, Owner& owner,
                                     From&... from) {
  const auto row = std::ranges::find(table, frame.type, [](const auto& each) { return each.type; });
  if (row == table.end()) return std::nullopt;
  return row->take(owner, from..., frame);
}

}  // namespace hvdrun
