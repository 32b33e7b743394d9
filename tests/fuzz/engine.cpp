// An engine adapter behind its ABI: pages and answers of any kind. The plugin of that build is linked in.
#include <cmath>
#include <set>
#include <vector>

#include "fuzz.hpp"
#include "hive/abi/plugin.h"

using namespace hive;
using fuzz::must;

namespace {

std::string text(hive_str s) {
  must(s.len == 0 || s.ptr != nullptr, "text is somewhere");
  return {s.ptr, s.len};
}
hive_str str(std::string_view s) { return {s.data(), s.size()}; }

struct adapter {
  adapter() {
    const hive_plugin *p = hive_plugin_entry_v0();
    for (uint32_t i = 0; i < p->component_count && component == nullptr; ++i)
      if (p->components[i]->kind == HIVE_KIND_ENGINE) component = p->components[i];
    host.struct_size = sizeof host;
    const hive_config config{sizeof(hive_config), 0, HIVE_STR("fuzz"), HIVE_STR("{}"), nullptr};
    must(component && component->create(&host, &config, nullptr, &self) == HIVE_OK, "an instance");
    table = static_cast<const hive_engine_vtable *>(component->vtable);
    about = table->describe(self);
    for (uint32_t i = 0; i < about->signal_count; ++i) names.insert(text(about->signals[i]->name));
  }
  hive_host host{};
  const hive_component *component = nullptr;
  const hive_engine_vtable *table = nullptr;
  const hive_engine_description *about = nullptr;
  void *self = nullptr;
  std::set<std::string> names;
};

const adapter &engine() {
  static const adapter a;
  return a;
}

// Everything a page said, one line a fact.
struct said {
  std::multiset<std::string> facts;
  hive_page_sink sink() {
    hive_page_sink s{};
    s.struct_size = sizeof s;
    s.ctx = this;
    s.state = [](void *c, int32_t state, hive_str why) noexcept {
      must(state >= HIVE_ENGINE_READY && state <= HIVE_ENGINE_DOWN, "a known state");
      of(c).facts.insert("state " + std::to_string(state) + text(why));
    };
    s.model = [](void *c, hive_str id, const hive_header *labels, size_t count) noexcept {
      must(id.len > 0, "a model has an id");
      std::string fact = "model " + text(id);
      for (size_t i = 0; i < count; ++i) fact += " " + text(labels[i].name) + "=" + text(labels[i].value);
      of(c).facts.insert(std::move(fact));
    };
    s.gauge = [](void *c, hive_str name, double v) noexcept {
      must(std::isfinite(v), "a gauge is finite");
      must(engine().names.contains(text(name)), "a signal it has described");
      of(c).facts.insert("gauge " + text(name) + " " + std::to_string(v));
    };
    s.counter = [](void *c, hive_str name, hive_str label, hive_str value, double v) noexcept {
      must(std::isfinite(v) && v >= 0, "a counter is a count");
      must(engine().names.contains(text(name)), "a signal it has described");
      of(c).facts.insert("counter " + text(name) + text(label) + text(value) + " " + std::to_string(v));
    };
    s.histogram = [](void *c, hive_str name, const double *b, const double *n, size_t count, double sum, double total) noexcept {
      must(engine().names.contains(text(name)), "a signal it has described");
      must(std::isfinite(sum) && std::isfinite(total), "a finite histogram");
      std::string fact = "histogram " + text(name) + " " + std::to_string(sum) + " " + std::to_string(total);
      for (size_t i = 0; i < count; ++i) {
        must(std::isfinite(b[i]) && n[i] >= 0 && n[i] <= total && (i == 0 || (b[i] > b[i - 1] && n[i] >= n[i - 1])), "ascending buckets");
        fact += " " + std::to_string(b[i]) + ":" + std::to_string(n[i]);
      }
      of(c).facts.insert(std::move(fact));
    };
    return s;
  }
  static said &of(void *c) { return *static_cast<said *>(c); }
};

hive_status read(uint32_t page, uint32_t status, std::string_view body, said &out) {
  const fuzz::exact_copy exact(body);
  const hive_page_sink sink = out.sink();
  return engine().table->parse_page(engine().self, page, status, {reinterpret_cast<const uint8_t *>(exact.text().data()), body.size()}, &sink);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static constexpr uint32_t statuses[] = {200, 400, 404, 413, 422, 429, 500, 503};
  fuzz::input in(data, size);
  const uint8_t what = in.byte(), how = in.byte();
  const uint32_t status = statuses[how & 7];
  const adapter &e = engine();
  if (what % 8 == 7) {
    static constexpr std::string_view dates[] = {"", "1", "Wed, 21 Oct 2065 07:28:00 GMT", "-1", "1e9", "99999999999999999999"};
    const std::string_view after = (how & 128) != 0 ? in.take(16) : dates[(how >> 3) % std::size(dates)];
    const hive_header fields[] = {{str("content-type"), str("application/json")}, {str("Retry-After"), str(after)}};
    const fuzz::exact_copy body(in.rest());
    hive_answer_class out{};
    out.struct_size = sizeof out;
    const hive_status s = e.table->classify(e.self, status, fields, 2, {reinterpret_cast<const uint8_t *>(body.text().data()), body.text().size()}, &out);
    must(s == HIVE_OK, "every answer is judged");
    must(out.verdict >= HIVE_ANSWER_OK && out.verdict <= HIVE_ANSWER_UNKNOWN_MODEL, "a known verdict");
    must(text(out.message).size() <= body.text().size() + 256, "bounded message");
    must(out.retry_after_ms <= 3600u * 1000 * 24, "a sane time to wait");
    return 0;
  }
  const uint32_t page = what % (e.about->page_count > 0 ? e.about->page_count : 1);
  const std::string_view body = in.rest();
  said whole;
  const hive_status first = read(page, status, body, whole);
  must(first == HIVE_OK || whole.facts.empty() || first < 0, "a status");
  said second;
  must(read(page, status, body, second) == first && second.facts == whole.facts, "the same page says the same");
  if (e.about->pages[page]->role == HIVE_PAGE_METRICS && status == 200 && first == HIVE_OK && !whole.facts.empty()) {
    said more;
    must(read(page, status, std::string(body) + "\n}{ no such line\n", more) == HIVE_OK && more.facts == whole.facts, "a bad line costs itself only");
  }
  return 0;
}
