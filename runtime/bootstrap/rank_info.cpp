#include "bootstrap/rank_info.hpp"

#include <sstream>

namespace libhvd {
namespace {

constexpr int kUnknown = -1;  // in the text

}  // namespace

std::string encode_rank_info(const RankInfo& info) {
  std::ostringstream text;
  text << info.rank << ' ' << info.size << ' ' << info.local_rank.value_or(kUnknown) << ' '
       << info.local_size.value_or(kUnknown) << ' ' << info.node_rank.value_or(kUnknown) << ' '
       << info.node_count.value_or(kUnknown) << ' ' << info.number.value_or(kUnknown);
  return text.str();
}

Result<RankInfo> decode_rank_info(const std::string& text) {
  RankInfo info;
  int optional[5];
  std::istringstream words(text);
  words >> info.rank >> info.size;
  for (int& value : optional) words >> value;
  if (!words) return fail(HVD_ERROR_SYSTEM, "a rank sent \"" + text + "\" as its place in the job");
  const auto known = [](int value) {
    return value == kUnknown ? std::nullopt : std::optional<int>(value);
  };
  info.local_rank = known(optional[0]);
  info.local_size = known(optional[1]);
  info.node_rank = known(optional[2]);
  info.node_count = known(optional[3]);
  info.number = known(optional[4]);
  return info;
}

}  // namespace libhvd
