// A gate in C++. Thresholds only:
//   struct heat { static constexpr std::string_view id = ..., summary = ...;
//                 static constexpr std::array fields{hive::sdk::field("gpu_temperature_c", "C", ...)}; };
// With custom rules it is a class whose constructor takes `const setup &`, reads its rules with `rules_of(setup)`, and has
//   void evaluate(const request &, const pool &, std::span<uint32_t> verdicts) const;
// verdicts come zeroed, one a slot; bit k set = fields[k] is violated there. Optional hooks as a strategy's. All [pool].
#pragma once

#include <array>

#include "hive/sdk/views.hpp"

namespace hive::sdk {

// A threshold the kernel evaluates over `column`; a threshold outside [min, max] is a warning to the operator.
constexpr hive_field field(std::string_view name, std::string_view unit, std::string_view column, std::string_view summary,
                           double min, double max, uint32_t flags = 0) {
  return {sizeof(hive_field), HIVE_RULE_THRESHOLD, flags, 0, str(name), str(unit), str(summary), str(column), min, max};
}

// A rule of any JSON shape that `evaluate` judges.
constexpr hive_field custom_field(std::string_view name, std::string_view unit, std::string_view summary) {
  return {sizeof(hive_field), HIVE_RULE_CUSTOM, 0, 0, str(name), str(unit), str(summary), {nullptr, 0}, 0, 0};
}

// The custom rules of the step an instance is made for. Views die when the constructor returns.
inline std::span<const hive_rule *const> rules_of(const setup &s) {
  const auto *g = static_cast<const hive_gate_setup *>(s.raw->setup);
  if (g == nullptr) return {};
  return {g->rules, g->rule_count};
}

template <class T>
concept judging = requires(const T &t, const request &r, const pool &p, std::span<uint32_t> v) { t.evaluate(r, p, v); };

template <class T>
concept gate_class = described<T> && requires { std::size(T::fields); };

// The component of T, for HIVE_PLUGIN.
template <gate_class T>
struct gate {
  static constexpr size_t count = std::size(T::fields);
  static_assert(count >= 1 && count <= 32, "a gate serves 1 to 32 fields");

  static hive_status evaluate(void *self, const hive_request *r, const hive_pool *p, uint32_t *verdicts) noexcept
    requires judging<T>
  {
    return guarded(nullptr, [&]() -> hive_status {
      const std::span<uint32_t> out(verdicts, p->count);
      for (uint32_t &v : out) v = 0;
      static_cast<const T *>(self)->evaluate(request(r), pool(p), out);
      return HIVE_OK;
    });
  }
  static void on_choice(void *self, const hive_request *r, const hive_pool *p, uint32_t index) noexcept {
    guarded(nullptr, [&]() -> hive_status { static_cast<T *>(self)->on_choice(request(r), pool(p), index); return HIVE_OK; });
  }
  static void on_outcome(void *self, const hive_outcome *outcome) noexcept {
    guarded(nullptr, [&]() -> hive_status { static_cast<T *>(self)->on_outcome(*outcome); return HIVE_OK; });
  }
  static void on_pool(void *self, const hive_pool *p) noexcept {
    guarded(nullptr, [&]() -> hive_status { static_cast<T *>(self)->on_pool(pool(p)); return HIVE_OK; });
  }

  template <size_t... I>
  static constexpr std::array<const hive_field *, count> pointers(std::index_sequence<I...>) { return {&T::fields[I]...}; }
  static constexpr std::array<const hive_field *, count> fields = pointers(std::make_index_sequence<count>());

  static constexpr hive_gate_vtable make() {
    hive_gate_vtable v{};
    v.struct_size = sizeof v;
    v.field_count = static_cast<uint32_t>(count);
    v.fields = fields.data();
    if constexpr (judging<T>) v.evaluate = &evaluate;
    if constexpr (requires(T &t, const request &r, const pool &p) { t.on_choice(r, p, 0u); }) v.on_choice = &on_choice;
    if constexpr (requires(T &t, const hive_outcome &o) { t.on_outcome(o); }) v.on_outcome = &on_outcome;
    if constexpr (requires(T &t, const pool &p) { t.on_pool(p); }) v.on_pool = &on_pool;
    return v;
  }
  static constexpr hive_gate_vtable vtable = make();
  static constexpr hive_component component = detail::component<T>(HIVE_KIND_GATE, &vtable, judging<T>);
};

}  // namespace hive::sdk
