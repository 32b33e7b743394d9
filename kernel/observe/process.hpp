// process_* from /proc/self and build_info, computed at scrape time.
#pragma once

#include <string>

#include "observe/metrics.hpp"

namespace hive::observe {

struct build_facts {
  std::string version, commit, compiler, plugin_abi;
};

class process_metrics final : public collectable {
 public:
  // `proc` stands for /proc/self in tests.
  explicit process_metrics(build_facts facts, std::string proc = "/proc/self") : facts_(std::move(facts)), proc_(std::move(proc)) {}
  // A value that cannot be read is left out.
  void collect(exposition &) override;

 private:
  build_facts facts_;
  std::string proc_;
};

}  // namespace hive::observe
