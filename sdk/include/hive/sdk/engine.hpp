// An engine adapter in C++: a class with `id`, `summary` and
//   const engine_description &describe() const;                              made in the constructor
//   void parse_page(uint32_t page, uint32_t status, std::string_view body, const page_sink &) const;
//   answer classify(uint32_t status, std::span<const hive_header>, std::string_view body) const;
// Every call is [pure]. parse_page throws failure(HIVE_E_CORRUPT, ...) only when nothing in the page could be read.
// hive/sdk/prometheus.hpp reads metrics pages.
#pragma once

#include <deque>
#include <vector>

#include "hive/sdk/core.hpp"

namespace hive::sdk {

// Builds a hive_engine_description and owns what it points to. Text must be constant (literals). Not movable.
class engine_description {
 public:
  engine_description() = default;
  engine_description(const engine_description &) = delete;
  engine_description &operator=(const engine_description &) = delete;

  // Answers the page's number, as parse_page gets it.
  uint32_t page(uint32_t role, std::string_view method, std::string_view path, uint32_t period_ms = 0, uint32_t timeout_ms = 5000) {
    pages_.push_back({sizeof(hive_page), role, str(method), str(path), period_ms, timeout_ms});
    page_list_.push_back(&pages_.back());
    return static_cast<uint32_t>(pages_.size() - 1);
  }
  void signal(std::string_view name, std::string_view unit, std::string_view help, uint32_t stale_after_ms = 0) {
    signals_.push_back({sizeof(hive_signal), stale_after_ms, str(name), str(unit), str(help)});
    signal_list_.push_back(&signals_.back());
  }
  void capability(std::string_view name) { capabilities_.push_back(str(name)); }

  std::string_view abort_path;           // empty: closing the connection ends the engine's request
  uint32_t idle_limit_ms = 0;            // 0 = the host's default
  uint32_t requests_per_connection = 0;  // 0 = no limit known
  uint32_t default_port = 0;

  const hive_engine_description *raw() const {
    raw_ = {sizeof(hive_engine_description),
            static_cast<uint32_t>(pages_.size()),
            page_list_.data(),
            signal_list_.data(),
            static_cast<uint32_t>(signals_.size()),
            static_cast<uint32_t>(capabilities_.size()),
            capabilities_.data(),
            str(abort_path),
            idle_limit_ms,
            requests_per_connection,
            default_port,
            0};
    return &raw_;
  }

 private:
  std::deque<hive_page> pages_;
  std::deque<hive_signal> signals_;
  std::vector<const hive_page *> page_list_;
  std::vector<const hive_signal *> signal_list_;
  std::vector<hive_str> capabilities_;
  mutable hive_engine_description raw_{};
};

// Where a page's facts go. A value that is missing is not reported; NaN is dropped here.
class page_sink {
 public:
  explicit page_sink(const hive_page_sink *s) noexcept : s_(s) {}
  void state(int32_t state, std::string_view reason = {}) const noexcept { s_->state(s_->ctx, state, str(reason)); }
  void model(std::string_view id, std::span<const hive_header> labels = {}) const noexcept {
    s_->model(s_->ctx, str(id), labels.data(), labels.size());
  }
  void gauge(std::string_view name, double value) const noexcept {
    if (value == value) s_->gauge(s_->ctx, str(name), value);
  }
  void counter(std::string_view name, double total, std::string_view label = {}, std::string_view value = {}) const noexcept {
    if (total == total) s_->counter(s_->ctx, str(name), str(label), str(value), total);
  }
  void histogram(std::string_view name, std::span<const double> bounds, std::span<const double> cumulative, double sum,
                 double total) const noexcept {
    s_->histogram(s_->ctx, str(name), bounds.data(), cumulative.data(), bounds.size(), sum, total);
  }

 private:
  const hive_page_sink *s_;
};

// The judgement of one answer. `message` points into the body, is constant, or lives until the next call on this thread.
struct answer {
  int32_t verdict = HIVE_ANSWER_FAILED;
  uint64_t retry_after_ms = 0;
  std::string_view message;
};

template <class T>
concept engine_class = described<T> &&
    requires(const T &t, std::string_view body, const page_sink &s, std::span<const hive_header> headers) {
      { t.describe() } -> std::same_as<const engine_description &>;
      t.parse_page(0u, 200u, body, s);
      { t.classify(0u, headers, body) } -> std::same_as<answer>;
    };

// The component of T, for HIVE_PLUGIN.
template <engine_class T>
struct engine {
  // The description is made final here, once, so that `describe` only reads.
  struct instance {
    T codec;
    const hive_engine_description *description;
  };
  static const instance &of(void *self) noexcept { return *static_cast<const instance *>(self); }

  static hive_status create(const hive_host *h, const hive_config *config, const hive_error_sink *err, void **self) noexcept {
    return guarded(err, [&]() -> hive_status {
      instance *made = nullptr;
      if constexpr (std::constructible_from<T, const setup &>) {
        const setup s{host(h), options(view(config->json)), view(config->instance), config};
        made = new instance{T(s), nullptr};
      } else {
        made = new instance{T(), nullptr};
      }
      made->description = made->codec.describe().raw();
      *self = made;
      return HIVE_OK;
    });
  }
  static void destroy(void *self) noexcept { delete static_cast<instance *>(self); }

  static const hive_engine_description *describe(void *self) noexcept { return of(self).description; }
  static hive_status parse_page(void *self, uint32_t page, uint32_t status, hive_bytes body, const hive_page_sink *sink) noexcept {
    return guarded(nullptr, [&]() -> hive_status {
      of(self).codec.parse_page(page, status, view(body), page_sink(sink));
      return HIVE_OK;
    });
  }
  static hive_status classify(void *self, uint32_t status, const hive_header *headers, size_t count, hive_bytes body,
                              hive_answer_class *out) noexcept {
    return guarded(nullptr, [&]() -> hive_status {
      const answer a = of(self).codec.classify(status, {headers, count}, view(body));
      out->verdict = a.verdict;
      out->retry_after_ms = a.retry_after_ms;
      out->message = str(a.message);
      return HIVE_OK;
    });
  }

  static constexpr hive_engine_vtable vtable{sizeof(hive_engine_vtable), 0, &describe, &parse_page, &classify};
  static constexpr hive_component make() {
    hive_component c = detail::component<T>(HIVE_KIND_ENGINE, &vtable, false);
    c.create = &create;
    c.destroy = &destroy;
    return c;
  }
  static constexpr hive_component component = make();
};

}  // namespace hive::sdk
