// An engine adapter loaded from its library as the host would, and a sink that keeps what a page said. One thread.
#pragma once

#include "hive/abi/plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hive::conformance {

inline std::string text(hive_str s) { return {s.ptr, s.len}; }
inline hive_str str(std::string_view s) { return {s.data(), s.size()}; }
inline hive_bytes bytes(std::string_view s) { return {reinterpret_cast<const uint8_t *>(s.data()), s.size()}; }

inline std::string golden(const std::string &name) {
  std::ifstream in(std::string(HIVE_GOLDEN_DIR) + "/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

struct histogram {
  std::vector<double> bounds, cumulative;
  double sum = 0, total = 0;
};

// Checks what every adapter must keep while it collects: finite numbers, ascending bounds, counts that never fall.
struct page_facts {
  std::map<std::string, double> gauges, counters;  // a labelled counter is name{label=value}
  std::map<std::string, histogram> histograms;
  std::map<std::string, std::map<std::string, std::string>> models;
  std::vector<std::pair<int, std::string>> states;
  bool sound = true;

  hive_page_sink sink() {
    hive_page_sink s{};
    s.struct_size = sizeof s;
    s.ctx = this;
    s.state = [](void *c, int32_t state, hive_str why) noexcept { of(c).states.emplace_back(state, text(why)); };
    s.model = [](void *c, hive_str id, const hive_header *labels, size_t count) noexcept {
      auto &m = of(c).models[text(id)];
      for (size_t i = 0; i < count; ++i) m[text(labels[i].name)] = text(labels[i].value);
    };
    s.gauge = [](void *c, hive_str name, double v) noexcept {
      of(c).sound &= std::isfinite(v);
      of(c).gauges[text(name)] = v;
    };
    s.counter = [](void *c, hive_str name, hive_str label, hive_str value, double v) noexcept {
      of(c).sound &= std::isfinite(v) && v >= 0;
      of(c).counters[label.len ? text(name) + "{" + text(label) + "=" + text(value) + "}" : text(name)] = v;
    };
    s.histogram = [](void *c, hive_str name, const double *b, const double *n, size_t count, double sum, double total) noexcept {
      histogram h{{b, b + count}, {n, n + count}, sum, total};
      for (size_t i = 0; i < count; ++i)
        of(c).sound &= std::isfinite(b[i]) && n[i] <= total && (i == 0 || (b[i] > b[i - 1] && n[i] >= n[i - 1]));
      of(c).sound &= std::isfinite(sum) && std::isfinite(total);
      of(c).histograms[text(name)] = std::move(h);
    };
    return s;
  }
  static page_facts &of(void *c) { return *static_cast<page_facts *>(c); }
};

class loaded_engine {
 public:
  explicit loaded_engine(const std::string &library) {
    void *handle = dlopen((std::string(HIVE_PLUGIN_DIR) + "/" + library + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle, nullptr) << dlerror();
    const auto entry = reinterpret_cast<hive_plugin_entry_fn>(dlsym(handle, HIVE_PLUGIN_ENTRY_NAME));
    EXPECT_NE(entry, nullptr);
    component_ = entry()->components[0];
    EXPECT_EQ(component_->kind, static_cast<uint32_t>(HIVE_KIND_ENGINE));
    host_.struct_size = sizeof host_;
    hive_config config{sizeof(hive_config), 0, HIVE_STR("test"), HIVE_STR("{}"), nullptr};
    EXPECT_EQ(component_->create(&host_, &config, nullptr, &self_), HIVE_OK);
    table_ = static_cast<const hive_engine_vtable *>(component_->vtable);
  }
  ~loaded_engine() { component_->destroy(self_); }
  loaded_engine(const loaded_engine &) = delete;
  loaded_engine &operator=(const loaded_engine &) = delete;

  const hive_engine_vtable *table() const { return table_; }
  void *self() const { return self_; }
  const hive_component &component() const { return *component_; }
  const hive_engine_description &describe() const { return *table_->describe(self_); }
  uint32_t page(uint32_t role) const {
    const auto &d = describe();
    for (uint32_t i = 0; i < d.page_count; ++i)
      if (d.pages[i]->role == role) return i;
    ADD_FAILURE() << "no page of role " << role;
    return 0;
  }
  hive_status read(uint32_t role, uint32_t status, std::string_view body, page_facts &facts) const {
    // A copy of exactly its size, so that a sanitizer sees a read past the end.
    const std::vector<char> exact(body.begin(), body.end());
    const hive_page_sink sink = facts.sink();
    return table_->parse_page(self_, page(role), status, bytes({exact.data(), exact.size()}), &sink);
  }
  hive_answer_class classify(uint32_t status, std::string_view body, std::vector<hive_header> headers = {}) const {
    hive_answer_class out{};
    out.struct_size = sizeof out;
    const std::vector<char> exact(body.begin(), body.end());
    EXPECT_EQ(table_->classify(self_, status, headers.data(), headers.size(), bytes({exact.data(), exact.size()}), &out), HIVE_OK);
    last_message = text(out.message);
    return out;
  }
  mutable std::string last_message;

 private:
  hive_host host_{};
  const hive_component *component_ = nullptr;
  const hive_engine_vtable *table_ = nullptr;
  void *self_ = nullptr;
};

}  // namespace hive::conformance
