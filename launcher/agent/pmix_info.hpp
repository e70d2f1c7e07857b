// A list of pmix_info_t whose values we own: PMIx reads it during a call and frees nothing of it.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <pmix_common.h>

namespace hvdrun {

class PmixInfoList {
 public:
  void add(const char* key, const std::string& value) {
    strings_.push_back(value);
    slot(key, PMIX_STRING).string = strings_.back().data();
  }
  void add(const char* key, bool value) { slot(key, PMIX_BOOL).flag = value; }
  void add_uint32(const char* key, std::uint32_t value) { slot(key, PMIX_UINT32).uint32 = value; }
  void add_uint16(const char* key, std::uint16_t value) { slot(key, PMIX_UINT16).uint16 = value; }
  void add_rank(const char* key, pmix_rank_t value) { slot(key, PMIX_PROC_RANK).rank = value; }
  void add_pointer(const char* key, void* value) { slot(key, PMIX_POINTER).ptr = value; }

  // A value of PMIx_generate_regex or _ppn: text with its terminating NUL.
  void add_regex(const char* key, const std::string& value) {
    strings_.push_back(value);
    auto& data = slot(key, PMIX_REGEX);
    data.bo.bytes = strings_.back().data();
    data.bo.size = value.size() + 1;
  }

  // An array of infos as one value (PMIX_PROC_DATA).
  PmixInfoList& add_list(const char* key) {
    lists_.emplace_back();
    arrays_.push_back({PMIX_INFO, 0, nullptr});
    slot(key, PMIX_DATA_ARRAY).darray = &arrays_.back();
    return lists_.back();
  }

  // Valid until the next add.
  pmix_info_t* data() {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      arrays_[i].array = lists_[i].data();
      arrays_[i].size = lists_[i].size();
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
  // Deques: what infos_ points to must not move.
  std::deque<std::string> strings_;
  std::deque<PmixInfoList> lists_;
  std::deque<pmix_data_array_t> arrays_;
};

}  // namespace hvdrun
