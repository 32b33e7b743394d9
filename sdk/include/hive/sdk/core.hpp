// What every kind of component shares: borrowed text, failures, the exception barrier, the host's services, and the
// HIVE_PLUGIN macro. Header-only, C++20, needs nothing but the ABI headers and the standard library.
//
// An author's class is plain: constants `id`, `summary` and optionally `version`, `schema`, `needs`; a constructor that
// takes `const setup &` (or nothing); the calls of its kind. A constructor or call may throw: `failure` carries a code
// and words to the host, anything else counts as HIVE_E_INTERNAL. No exception leaves the library.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "hive/abi.h"
#include "hive/sdk/options.hpp"

namespace hive::sdk {

inline constexpr double missing = std::numeric_limits<double>::quiet_NaN();

constexpr hive_str str(std::string_view s) noexcept { return {s.data(), s.size()}; }
constexpr std::string_view view(hive_str s) noexcept { return {s.ptr, s.len}; }
inline std::string_view view(hive_bytes b) noexcept { return {reinterpret_cast<const char *>(b.ptr), b.len}; }
inline hive_bytes bytes(std::string_view s) noexcept { return {reinterpret_cast<const uint8_t *>(s.data()), s.size()}; }

// Thrown by an author's code; the barrier turns it into its code and, where the call has a sink, its words.
class failure : public std::exception {
 public:
  failure(hive_status code, std::string words) : code_(code), words_(std::move(words)) {}
  hive_status code() const noexcept { return code_; }
  const char *what() const noexcept override { return words_.c_str(); }

 private:
  hive_status code_;
  std::string words_;
};

inline hive_status report(const hive_error_sink *err, hive_status code, std::string_view words) noexcept {
  if (err != nullptr && err->set != nullptr) err->set(err->ctx, code, str(words));
  return code;
}

// Runs body and answers its status; nothing it throws gets out.
template <class F>
hive_status guarded(const hive_error_sink *err, F &&body) noexcept {
  try {
    return std::forward<F>(body)();
  } catch (const failure &f) {
    return report(err, f.code(), f.what());
  } catch (const std::bad_alloc &) {
    return report(err, HIVE_E_EXHAUSTED, "out of memory");
  } catch (const std::exception &e) {
    return report(err, HIVE_E_INTERNAL, e.what());
  } catch (...) {
    return report(err, HIVE_E_INTERNAL, "unknown exception");
  }
}

// The host as one instance sees it. Valid from the constructor to the end of the destructor; copy it freely.
class host {
 public:
  // A counter or gauge. Adding to a default-made or refused one does nothing. [any]
  class metric {
   public:
    metric() = default;
    metric(const hive_host *h, hive_metric id) : host_(h), id_(id) {}
    void add(double delta = 1) const noexcept {
      if (id_ != 0) host_->metric_add(host_, id_, delta);
    }

   private:
    const hive_host *host_ = nullptr;
    hive_metric id_ = 0;
  };

  explicit host(const hive_host *h) noexcept : h_(h) {}
  const hive_host *raw() const noexcept { return h_; }

  void debug(std::string_view line) const noexcept { h_->log(h_, HIVE_LOG_DEBUG, str(line)); }
  void info(std::string_view line) const noexcept { h_->log(h_, HIVE_LOG_INFO, str(line)); }
  void warn(std::string_view line) const noexcept { h_->log(h_, HIVE_LOG_WARN, str(line)); }
  void error(std::string_view line) const noexcept { h_->log(h_, HIVE_LOG_ERROR, str(line)); }
  uint64_t now_ns() const noexcept { return h_->now_ns(h_); }
  hive_status post(hive_task task, void *arg) const noexcept { return h_->post(h_, task, arg); }
  void request_pump() const noexcept { h_->request_pump(h_); }

  // Only in the constructor.
  hive_column column(std::string_view name) const noexcept { return h_->column(h_, str(name)); }
  metric counter(std::string_view name, std::string_view help) const noexcept {
    return {h_, h_->metric_register(h_, HIVE_METRIC_COUNTER, str(name), str(help))};
  }
  metric gauge(std::string_view name, std::string_view help) const noexcept {
    return {h_, h_->metric_register(h_, HIVE_METRIC_GAUGE, str(name), str(help))};
  }

 private:
  const hive_host *h_;
};

// What a constructor is given. Views die when it returns; `host` stays good for the life of the instance.
struct setup {
  sdk::host host;
  sdk::options options;       // valid against the schema, defaults filled in
  std::string_view instance;  // its name in logs
  const hive_config *raw;
};

inline constexpr std::string_view no_options = R"({"type":"object","additionalProperties":false})";

namespace detail {

template <class T>
constexpr std::string_view version_of() {
  if constexpr (requires { T::version; }) return T::version;
  else return "1.0.0";
}
template <class T>
constexpr std::string_view schema_of() {
  if constexpr (requires { T::schema; }) return T::schema;
  else return no_options;
}
template <class T>
constexpr uint32_t needs_of() {
  if constexpr (requires { T::needs; }) return T::needs;
  else return 0;
}

template <class T>
hive_status create(const hive_host *h, const hive_config *config, const hive_error_sink *err, void **self) noexcept {
  return guarded(err, [&]() -> hive_status {
    if constexpr (std::constructible_from<T, const setup &>) {
      *self = new T(setup{host(h), options(view(config->json)), view(config->instance), config});
    } else {
      *self = new T();
    }
    return HIVE_OK;
  });
}
template <class T>
void destroy(void *self) noexcept { delete static_cast<T *>(self); }
template <class T>
hive_status check(const hive_config *config, const hive_error_sink *err) noexcept {
  return guarded(err, [&]() -> hive_status {
    T::check(options(view(config->json)));
    return HIVE_OK;
  });
}

// The table of one component; `T::check(options)` is offered when the author wrote one.
template <class T>
constexpr hive_component component(uint32_t kind, const void *vtable, bool instances = true) {
  hive_component c{};
  c.struct_size = sizeof(hive_component);
  c.kind = kind;
  c.needs = needs_of<T>();
  c.id = str(T::id);
  c.version = str(version_of<T>());
  c.summary = str(T::summary);
  c.config_schema = str(schema_of<T>());
  if constexpr (requires(const options &o) { T::check(o); }) c.check = &check<T>;
  if (instances) {
    c.create = &create<T>;
    c.destroy = &destroy<T>;
  }
  c.vtable = vtable;
  return c;
}

template <class... Components>
struct component_list {
  static constexpr const hive_component *items[] = {&Components::component...};
  static constexpr hive_plugin plugin(std::string_view id, std::string_view version, std::string_view vendor,
                                      std::string_view license) {
    return {sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, sizeof...(Components), 0,
            str(id),             str(version),   str(vendor),    str(license),          items};
  }
};

}  // namespace detail

template <class T>
concept described = requires {
  { T::id } -> std::convertible_to<std::string_view>;
  { T::summary } -> std::convertible_to<std::string_view>;
} && (std::constructible_from<T, const setup &> || std::default_initializable<T>);

}  // namespace hive::sdk

// HIVE_PLUGIN("id", "version", "vendor", "license", hive::sdk::strategy<a>, hive::sdk::gate<b>...): once in a library.
#define HIVE_PLUGIN(plugin_id, plugin_version, plugin_vendor, plugin_license, ...)                              \
  HIVE_EXPORT const hive_plugin *hive_plugin_entry_v0(void) {                                                   \
    static constexpr hive_plugin plugin = ::hive::sdk::detail::component_list<__VA_ARGS__>::plugin(             \
        plugin_id, plugin_version, plugin_vendor, plugin_license);                                              \
    return &plugin;                                                                                             \
  }
