// The aliases of models that rule at this moment (config/model_aliases.hpp), and putting the model's own name in a request.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_budget.hpp"
#include "config/model_aliases.hpp"
#include "gateway/request_scan.hpp"
#include "http/message.hpp"

namespace hive::gateway {

// Any thread; without aliases a look costs one relaxed load.
class model_names {
 public:
  using table = std::shared_ptr<const std::vector<config::model_alias>>;  // sorted by alias; never null

  void set(std::vector<config::model_alias> sorted);
  table all() const;
  // The model behind an alias; empty when it is none.
  std::string model_of(std::string_view name) const;

 private:
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;  // held for one pointer copy
  table now_ = std::make_shared<const std::vector<config::model_alias>>();
};

// The body with `model` at `at`, where the request names its model: as JSON text, or in a form as it is. No other byte differs. It is
// counted against `of` like the body it replaces. Loop thread of `of`; without it any thread.
http::body_ptr with_model(std::string_view body, byte_range at, const std::string &model, bool in_form, byte_share *of);

}  // namespace hive::gateway
