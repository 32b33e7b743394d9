#include "gateway/model_names.hpp"

#include <algorithm>
#include <utility>

#include "base/json_text.hpp"
#include "http/counted_body.hpp"

namespace hive::gateway {

void model_names::set(std::vector<config::model_alias> sorted) {
  table next = std::make_shared<const std::vector<config::model_alias>>(std::move(sorted));
  const bool any = !next->empty();
  {
    const std::lock_guard lock(mutex_);
    now_.swap(next);
  }
  any_.store(any, std::memory_order_release);
}

model_names::table model_names::all() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

std::string model_names::model_of(std::string_view name) const {
  if (!any_.load(std::memory_order_acquire)) return {};
  const table now = all();
  const auto found = std::lower_bound(now->begin(), now->end(), name, [](const config::model_alias &a, std::string_view n) { return a.alias < n; });
  return found != now->end() && found->alias == name ? found->model : std::string();
}

http::body_ptr with_model(std::string_view body, byte_range at, const std::string &model, bool in_form, byte_share *of) {
  std::string value;
  if (in_form) value = model;
  else append_json_string(value, model);
  std::string out;
  out.reserve(body.size() - at.length + value.size() + http::body_padding);
  out.append(body.substr(0, at.offset)).append(value).append(body.substr(at.offset + at.length));
  return http::counted(of, std::move(out));
}

}  // namespace hive::gateway
