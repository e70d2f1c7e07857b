#include "collective/element.hpp"

namespace libhvd {

const char* type_name(hvd_type type) {
  switch (type) {
    case HVD_UINT8:
      return "uint8";
    case HVD_INT8:
      return "int8";
    case HVD_UINT16:
      return "uint16";
    case HVD_INT16:
      return "int16";
    case HVD_INT32:
      return "int32";
    case HVD_INT64:
      return "int64";
    case HVD_FLOAT16:
      return "float16";
    case HVD_FLOAT32:
      return "float32";
    case HVD_FLOAT64:
      return "float64";
    case HVD_BOOL:
      return "bool";
    case HVD_BFLOAT16:
      return "bfloat16";
    default:
      return "unknown";
  }
}

const char* op_name(hvd_op op) {
  switch (op) {
    case HVD_AVERAGE:
      return "average";
    case HVD_SUM:
      return "sum";
    case HVD_ADASUM:
      return "adasum";
    case HVD_MIN:
      return "min";
    case HVD_MAX:
      return "max";
    case HVD_PRODUCT:
      return "product";
    default:
      return "unknown";
  }
}

}  // namespace libhvd
