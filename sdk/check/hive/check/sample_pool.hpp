// A pool made of plain vectors, for tests and the checker: columns by name, eligible bytes, the candidate list, and a host
// that interns columns. Not thread-safe.
#pragma once

#include <ctime>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hive/abi/plugin.h"

namespace hive::check {

class sample_pool {
 public:
  explicit sample_pool(uint32_t count) : agents_(count), eligible_(count, 1), columns_(1) {
    for (uint32_t i = 0; i < count; ++i) {
      agents_[i].struct_size = sizeof(hive_agent);
      agents_[i].agent_key = 1000 + i;
      agents_[i].generation = 1;
    }
  }

  hive_column column(const std::string &name) {
    auto [it, fresh] = ids_.emplace(name, static_cast<hive_column>(columns_.size()));
    if (fresh) columns_.push_back(nullptr);
    return it->second;
  }
  // Publishes a column: `values` one a slot, NaN = missing.
  void set(const std::string &name, std::vector<double> values) {
    values.resize(agents_.size(), std::numeric_limits<double>::quiet_NaN());
    const hive_column id = column(name);
    values_[id] = std::make_unique<std::vector<double>>(std::move(values));
    columns_[id] = values_[id]->data();
  }
  // Publishes every column anybody has asked for so far.
  void set_all(const std::vector<double> &values) {
    for (const auto &[name, id] : ids_) set(name, values);
  }
  void eligible(uint32_t index, bool yes) { eligible_[index] = yes ? 1 : 0; }
  hive_agent &agent(uint32_t index) { return agents_[index]; }
  void new_epoch() { ++epoch_; }

  // Valid until the next change.
  const hive_pool *view() {
    candidates_.clear();
    for (uint32_t i = 0; i < agents_.size(); ++i) {
      if (eligible_[i] != 0) candidates_.push_back(i);
    }
    sampled_.assign(columns_.size(), nullptr);
    view_ = {sizeof(hive_pool),     static_cast<uint32_t>(agents_.size()),     agents_.data(),  sizeof(hive_agent),
             static_cast<uint32_t>(columns_.size()), columns_.data(), sampled_.data(), eligible_.data(),
             candidates_.data(),    static_cast<uint32_t>(candidates_.size()), 0,               epoch_};
    return &view_;
  }

 private:
  std::vector<hive_agent> agents_;
  std::vector<uint8_t> eligible_;
  std::vector<const double *> columns_;
  std::vector<const uint64_t *> sampled_;
  std::map<hive_column, std::unique_ptr<std::vector<double>>> values_;
  std::map<std::string, hive_column> ids_;
  std::vector<uint32_t> candidates_;
  uint64_t epoch_ = 1;
  hive_pool view_{};
};

// A host table whose columns are those of a sample_pool; logs, metrics and tasks go nowhere.
class sample_host {
 public:
  explicit sample_host(sample_pool &pool) {
    table_ = {sizeof(hive_host), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, &pool, &log, &now, &post, &column, &metric, &add, &pump};
  }
  const hive_host *table() const { return &table_; }

 private:
  static void log(const hive_host *, int32_t, hive_str) noexcept {}
  static uint64_t now(const hive_host *) noexcept {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
  }
  static hive_status post(const hive_host *, hive_task, void *) noexcept { return HIVE_E_UNAVAILABLE; }
  static hive_column column(const hive_host *h, hive_str name) noexcept {
    return static_cast<sample_pool *>(h->ctx)->column(std::string(name.ptr, name.len));
  }
  static hive_metric metric(const hive_host *, int32_t, hive_str, hive_str) noexcept { return 0; }
  static void add(const hive_host *, hive_metric, double) noexcept {}
  static void pump(const hive_host *) noexcept {}
  hive_host table_{};
};

inline hive_request sample_request(uint64_t tie_seed = 0) {
  hive_request r{};
  r.struct_size = sizeof r;
  r.request_id = HIVE_STR("r-1");
  r.model = HIVE_STR("model");
  r.capability = HIVE_STR("llm");
  r.route = HIVE_STR("/v1/chat/completions");
  r.tie_seed = tie_seed;
  r.now_ns = 1'000'000'000;
  r.deadline_ns = UINT64_MAX;
  r.prompt_tokens = HIVE_TOKENS_UNKNOWN;
  r.output_tokens = HIVE_TOKENS_UNKNOWN;
  return r;
}

}  // namespace hive::check
