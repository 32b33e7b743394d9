// What the tests of this room share: components built into the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "routing/catalog.hpp"
#include "routing/fleet_fixture.hpp"

namespace hive::routing::testing {

inline hive_str str(const char *s) { return {s, std::char_traits<char>::length(s)}; }

// How the built-in components behave; one object for the whole test program, reset by each fixture.
struct behaviour {
  hive_status select_status = HIVE_OK;
  uint32_t wrong_index = 0;            // "liar" answers count + this
  hive_status evaluate_status = HIVE_OK;
  bool create_fails = false;
  std::vector<uint32_t> chosen;        // on_choice
  std::vector<hive_outcome> outcomes;
  std::vector<uint64_t> epochs;        // on_pool
  int alive = 0;
  int created = 0;
  std::vector<std::string> rules;      // of the custom gate as handed to create
  std::vector<uint64_t> blocks;        // "curious" saw these in its last selection
  std::vector<std::string> headers;
  std::vector<double> scores;          // "odd" scores so, slot by slot, and chooses ...
  uint32_t choice = 0;                 // ... this
};
inline behaviour &plan() {
  static behaviour b;
  return b;
}

inline hive_status select_least(void *, const hive_request *r, const hive_pool *p, hive_choice *c) noexcept {
  // Column "load" is the third the kernel interns.
  const double *load = hive_column_at(p, 3);
  double best = std::numeric_limits<double>::infinity();
  std::vector<uint32_t> ties;
  for (uint32_t k = 0; k < p->candidate_count; ++k) {
    const uint32_t i = p->candidates[k];
    if (load[i] < best) ties.clear(), best = load[i];
    if (load[i] == best) ties.push_back(i);
  }
  c->index = ties[r->tie_seed % ties.size()];
  return HIVE_OK;
}
inline hive_status select_wrong(void *, const hive_request *, const hive_pool *p, hive_choice *c) noexcept {
  c->index = p->count + plan().wrong_index;
  return plan().select_status;
}
inline hive_status select_curiously(void *, const hive_request *r, const hive_pool *p, hive_choice *c) noexcept {
  plan().blocks.assign(r->prefix_blocks, r->prefix_blocks + r->prefix_block_count);
  plan().headers.clear();
  for (size_t i = 0; i < r->header_count; ++i) plan().headers.emplace_back(r->headers[i].name.ptr, r->headers[i].name.len);
  c->index = p->candidates[0];
  return HIVE_OK;
}
inline hive_status select_oddly(void *, const hive_request *, const hive_pool *, hive_choice *c) noexcept {
  std::copy_n(plan().scores.begin(), c->score_count, c->scores);
  c->scored = 1;
  c->index = plan().choice;
  return HIVE_OK;
}
inline hive_status evaluate_upper(void *, const hive_request *, const hive_pool *p, uint32_t *v) noexcept {
  const double *srtt = hive_column_at(p, 7);
  for (uint32_t i = 0; i < p->count; ++i) v[i] = srtt[i] > 100 ? 2u : 0u;  // bit 1 = srtt_upper
  return plan().evaluate_status;
}
inline void note_choice(void *, const hive_request *, const hive_pool *, uint32_t i) noexcept { plan().chosen.push_back(i); }
inline void note_outcome(void *, const hive_outcome *o) noexcept { plan().outcomes.push_back(*o); }
inline void note_pool(void *, const hive_pool *p) noexcept { plan().epochs.push_back(p->epoch); }

inline const hive_strategy_vtable least_table{sizeof(hive_strategy_vtable), 0, select_least, note_choice, note_outcome, note_pool};
inline const hive_strategy_vtable liar_table{sizeof(hive_strategy_vtable), 0, select_wrong, nullptr, nullptr, nullptr};
inline const hive_component least_component{sizeof(hive_component), HIVE_KIND_STRATEGY, 0, 0, str("least-loaded"), str("1"),
                                            str(""), str("{}"), nullptr, nullptr, nullptr, &least_table};
inline const hive_component liar_component{sizeof(hive_component), HIVE_KIND_STRATEGY, 0, 0, str("liar"), str("1"),
                                           str(""), str("{}"), nullptr, nullptr, nullptr, &liar_table};

inline const hive_strategy_vtable curious_table{sizeof(hive_strategy_vtable), 0, select_curiously, nullptr, nullptr, nullptr};
inline const hive_component curious_component{sizeof(hive_component), HIVE_KIND_STRATEGY, HIVE_NEEDS_PREFIX_BLOCKS | HIVE_NEEDS_HEADERS, 0,
                                              str("curious"), str("1"), str(""), str("{}"), nullptr, nullptr, nullptr, &curious_table};

inline const hive_strategy_vtable odd_table{sizeof(hive_strategy_vtable), 0, select_oddly, nullptr, nullptr, nullptr};
inline const hive_component odd_component{sizeof(hive_component), HIVE_KIND_STRATEGY, 0, 0, str("odd"), str("1"), str(""), str("{}"),
                                          nullptr, nullptr, nullptr, &odd_table};

inline hive_field threshold_field(const char *name, const char *unit, const char *column, double max, uint32_t flags = 0) {
  return {sizeof(hive_field), HIVE_RULE_THRESHOLD, flags, 0, str(name), str(unit), str(""), str(column), 0, max};
}
inline const std::vector<hive_field> &all_fields() {
  static const double none = -1;  // max below min: no bound
  static const std::vector<hive_field> fields = {
      threshold_field("srtt", "ms", "srtt_ms", none),
      {sizeof(hive_field), HIVE_RULE_CUSTOM, 0, 0, str("srtt_upper"), str("ms"), str(""), str("srtt_ms"), 0, none},
      threshold_field("capacity_utilization", "fraction", "capacity_utilization", 1),
      threshold_field("success_rate", "fraction", "success_rate", 1),
      threshold_field("consecutive_failures", "count", "consecutive_failures", none),
      threshold_field("kv_cache_utilization", "fraction", "kv_cache_utilization", 1, HIVE_FIELD_SHED),
      threshold_field("running_requests", "count", "running_requests", none),
      threshold_field("waiting_requests", "count", "waiting_requests", none, HIVE_FIELD_SHED),
      threshold_field("gpu_temperature_c", "C", "gpu_temperature_c", 150),
  };
  return fields;
}
inline const hive_gate_vtable gate_table{sizeof(hive_gate_vtable), 2, nullptr, evaluate_upper, nullptr, nullptr, nullptr};
inline const hive_component gate_component{sizeof(hive_component), HIVE_KIND_GATE, 0, 0, str("all"), str("1"), str(""),
                                           str("{}"), nullptr, nullptr, nullptr, &gate_table};

class test_source final : public component_source {
 public:
  // Which of all_fields are enabled; empty = all.
  explicit test_source(std::vector<std::string> enabled = {}) : enabled_(std::move(enabled)) { plan() = {}; }

  const hive_component *strategy(std::string_view id) const override {
    for (const hive_component *c : {&least_component, &liar_component, &curious_component, &odd_component})
      if (std::string_view(c->id.ptr, c->id.len) == id) return c;
    return nullptr;
  }
  std::optional<gate_field> field(std::string_view name) const override {
    const auto names = fields();
    if (std::find(names.begin(), names.end(), name) == names.end()) return {};
    for (uint32_t i = 0; i < all_fields().size(); ++i)
      if (std::string_view(all_fields()[i].name.ptr, all_fields()[i].name.len) == name)
        return gate_field{&gate_component, &all_fields()[i], i};
    return {};
  }
  std::vector<std::string> strategies() const override { return {"least-loaded", "liar"}; }
  std::vector<std::string> fields() const override {
    std::vector<std::string> out = enabled_;
    if (out.empty())
      for (const hive_field &f : all_fields()) out.emplace_back(f.name.ptr, f.name.len);
    std::sort(out.begin(), out.end());
    return out;
  }
  std::string provider_hint(uint32_t kind, std::string_view name) const override {
    if (kind == HIVE_KIND_GATE && name == "kv_cache_utilization") return "plugin gate_engine provides it and is not enabled";
    if (kind == HIVE_KIND_STRATEGY && name == "power-of-two") return "plugin strategy_power_of_two provides it and is not enabled";
    return {};
  }
  result<std::string> complete_options(const hive_component &, const std::string &json) const override {
    if (json.find("bogus") != std::string::npos) return fail(errc::invalid, "unknown key 'bogus'");
    return json;
  }
  result<std::unique_ptr<component_instance>> create(const hive_component &, const std::string &, const std::string &,
                                                     const std::string &, const custom_rules &rules) override {
    if (plan().create_fails) return fail(errc::invalid, "the component said no");
    for (const auto &[field, json] : rules) plan().rules.push_back(field + "=" + json);
    ++plan().created;
    return std::unique_ptr<component_instance>(new made);
  }

 private:
  struct made final : component_instance {
    made() { ++plan().alive; }
    ~made() override { --plan().alive; }
    void *self() const override { return nullptr; }
  };
  std::vector<std::string> enabled_;
};

}  // namespace hive::routing::testing
