// The C ABI's handle of a source, which readers share.
#pragma once

#include "data/source.hpp"

#include <memory>

#include <hvd/data.h>

struct hvd_source {
  std::shared_ptr<const libhvd::Source> source;
};
