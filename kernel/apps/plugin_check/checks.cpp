#include "apps/plugin_check/checks.hpp"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "hive/check/sample_pool.hpp"
#include "plugins/error_words.hpp"
#include "plugins/library.hpp"

namespace hive::check {
namespace {

using plugins::component_description;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

void require(bool fine, const std::string &sentence) {
  if (!fine) throw broken(sentence);
}

std::string label(const component_description &c) { return std::string(plugins::kind_name(c.kind)) + " \"" + c.id + "\""; }

struct dynamic_symbol {
  std::string name;
  unsigned binding;
};

// The symbols a library defines for others, from its section headers (64-bit ELF, as everywhere we build).
std::vector<dynamic_symbol> exports(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  const auto at = [&]<class T>(size_t offset, T &out) {
    require(offset <= file.size() && sizeof(T) <= file.size() - offset, "its ELF headers point outside the file");
    std::memcpy(&out, file.data() + offset, sizeof(T));
  };
  Elf64_Ehdr head{};
  at(0, head);
  require(std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64, "is not a 64-bit ELF file");
  std::vector<dynamic_symbol> out;
  for (unsigned i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr s{}, names{};
    at(head.e_shoff + size_t{i} * sizeof s, s);
    if (s.sh_type != SHT_DYNSYM) continue;
    at(head.e_shoff + size_t{s.sh_link} * sizeof s, names);
    for (size_t k = 0; k < s.sh_size / sizeof(Elf64_Sym); ++k) {
      Elf64_Sym symbol{};
      at(s.sh_offset + k * sizeof symbol, symbol);
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
      const size_t from = names.sh_offset + symbol.st_name;
      require(from < file.size(), "its ELF headers point outside the file");
      out.push_back({file.c_str() + from, ELF64_ST_BIND(symbol.st_info)});
    }
  }
  return out;
}

void one_export(const subject &s) {
  bool entry = false;
  for (const auto &symbol : exports(s.path)) {
    if (symbol.name == HIVE_PLUGIN_ENTRY_NAME) entry = true;
    else if (symbol.binding == STB_GLOBAL && symbol.name.rfind("__", 0) != 0 && symbol.name.rfind("_ZT", 0) != 0)
      throw broken("exports \"" + symbol.name + "\" beside its entry; build it with hive_add_plugin()");
  }
  require(entry, "does not export " HIVE_PLUGIN_ENTRY_NAME);
}

void no_unique(const subject &s) {
  for (const auto &symbol : exports(s.path)) {
    if (symbol.binding == STB_GNU_UNIQUE)
      throw broken("exports the unique symbol \"" + symbol.name + "\", which keeps old code mapped; build with -fno-gnu-unique");
  }
}

void describes(const subject &s) { load_subject(s.path); }

void entry_pure(const subject &s) {
  const auto first = boost::json::serialize(plugins::to_json(load_subject(s.path)));
  const auto again = boost::json::serialize(plugins::to_json(load_subject(s.path)));
  require(first == again, "its entry function answers differently the second time");
}

// An instance with its host, for one component.
class made {
 public:
  made(const component_description &c, sample_pool &pool, const std::string &config) : c_(c), host_(pool) {
    if (c.table->create == nullptr) return;
    auto json = c.options.apply(config);
    if (!json) throw skipped(label(c) + " needs configuration (--config): " + json.why().text());
    const hive_gate_setup gate{sizeof(hive_gate_setup), 0, nullptr};
    const hive_config conf{sizeof(hive_config), 0, HIVE_STR("check"), {json->data(), json->size()}, c.kind == HIVE_KIND_GATE ? &gate : nullptr};
    plugins::error_words why;
    const hive_status st = c.table->create(host_.table(), &conf, why.sink(), &self_);
    require(st == HIVE_OK, label(c) + " cannot be created: " + why.or_status(st));
    require(self_ != nullptr, label(c) + ": create answered OK and no instance");
  }
  ~made() {
    if (self_ != nullptr) c_.table->destroy(self_);
  }
  void *self() const { return self_; }
  template <class T>
  const T &table() const { return *static_cast<const T *>(c_.table->vtable); }

 private:
  const component_description &c_;
  sample_host host_;
  void *self_ = nullptr;
};

template <class F>
void each(const subject &s, uint32_t kind, F &&f) {
  const auto d = load_subject(s.path);
  bool any = false;
  for (const auto &c : d.components) {
    if (kind != 0 && c.kind != kind) continue;
    any = true;
    f(c);
  }
  if (!any) throw skipped("it has no " + std::string(plugins::kind_name(kind)));
}

void create_destroy(const subject &s) {
  each(s, 0, [&](const component_description &c) {
    sample_pool pool(4);
    for (int i = 0; i < 100; ++i) made one(c, pool, s.config);
  });
}

constexpr uint32_t untouched = 0xDEADBEEF;

struct pick {
  hive_status status;
  uint32_t index;
};

pick choose(const made &m, sample_pool &pool, uint64_t seed) {
  const hive_request r = sample_request(seed);
  const hive_pool *view = pool.view();
  std::vector<double> scores(view->count + 1, 0);
  scores.back() = 12345.5;
  hive_choice choice{sizeof(hive_choice), untouched, scores.data(), view->count, 0};
  const auto &t = m.table<hive_strategy_vtable>();
  if (t.on_pool != nullptr) t.on_pool(m.self(), view);
  const hive_status st = t.select(m.self(), &r, view, &choice);
  require(scores.back() == 12345.5, "select wrote past the end of scores");
  return {st, choice.index};
}

void strategy_range(const subject &s) {
  each(s, HIVE_KIND_STRATEGY, [&](const component_description &c) {
    const std::vector<double> shapes[] = {{0.5, 0.25, 0.75, 0.25, 1, 0, 0.5, 0.1}, {}, {nan, 0.5}, {INFINITY, -INFINITY, nan, 0}};
    for (const auto &values : shapes) {
      sample_pool pool(8);
      made m(c, pool, s.config);
      pool.set_all(values);
      for (const uint32_t out : {0u, 3u, 7u}) pool.eligible(out, false);
      for (uint64_t seed = 0; seed < 200; ++seed) {
        const pick p = choose(m, pool, seed);
        require(p.status == HIVE_OK || p.status == HIVE_NO_CHOICE, label(c) + " fails with status " + std::to_string(p.status) + " on a plain pool");
        if (p.status != HIVE_OK) continue;
        require(p.index < 8, label(c) + " chose index " + std::to_string(p.index) + " of 8");
        require(p.index != 0 && p.index != 3 && p.index != 7, label(c) + " chose " + std::to_string(p.index) + ", which no gate let through");
      }
    }
  });
}

void strategy_none(const subject &s) {
  each(s, HIVE_KIND_STRATEGY, [&](const component_description &c) {
    for (const uint32_t count : {0u, 3u}) {
      sample_pool pool(count);
      made m(c, pool, s.config);
      for (uint32_t i = 0; i < count; ++i) pool.eligible(i, false);
      const pick p = choose(m, pool, 1);
      require(p.status == HIVE_NO_CHOICE, label(c) + " chose among no candidates");
    }
  });
}

void strategy_repeats(const subject &s) {
  each(s, HIVE_KIND_STRATEGY, [&](const component_description &c) {
    sample_pool pool(16);
    made m(c, pool, s.config);
    pool.set_all(std::vector<double>(16, 0.5));
    std::set<uint32_t> chosen;
    for (uint64_t seed = 0; seed < 64; ++seed) {
      const pick a = choose(m, pool, seed), b = choose(m, pool, seed);
      require(a.status == b.status && a.index == b.index, label(c) + " answers differently for the same request and pool: select must change nothing");
      if (a.status == HIVE_OK) chosen.insert(a.index);
    }
    require(chosen.size() > 1, label(c) + " sends every tie to one agent: use tie_seed");
  });
}

void gate_repeats(const subject &s) {
  each(s, HIVE_KIND_GATE, [&](const component_description &c) {
    const auto *t = static_cast<const hive_gate_vtable *>(c.table->vtable);
    if (t->evaluate == nullptr) return;
    sample_pool pool(33);
    made m(c, pool, s.config);
    pool.set_all({1, 2, nan, 1e9, -1, INFINITY});
    const hive_request r = sample_request();
    std::vector<uint32_t> a(34, untouched), b(34, ~untouched);
    require(t->evaluate(m.self(), &r, pool.view(), a.data()) >= 0, label(c) + " fails on a plain pool");
    require(t->evaluate(m.self(), &r, pool.view(), b.data()) >= 0, label(c) + " fails on a plain pool");
    require(a[33] == untouched && b[33] == ~untouched, label(c) + " wrote past the last verdict");
    for (uint32_t i = 0; i < 33; ++i) {
      require(a[i] == b[i], label(c) + " gives two verdicts for the same input at slot " + std::to_string(i));
      require((uint64_t{a[i]} >> t->field_count) == 0, label(c) + " sets bits of fields it does not have");
    }
  });
}

void engine_garbage(const subject &s) {
  each(s, HIVE_KIND_ENGINE, [&](const component_description &c) {
    sample_pool pool(0);
    made m(c, pool, s.config);
    const auto &t = m.table<hive_engine_vtable>();
    const auto *d = t.describe(m.self());
    require(d != nullptr, label(c) + " describes nothing");
    const hive_page_sink sink{sizeof(hive_page_sink),
                              0,
                              nullptr,
                              [](void *, int32_t, hive_str) noexcept {},
                              [](void *, hive_str, const hive_header *, size_t) noexcept {},
                              [](void *, hive_str, double) noexcept {},
                              [](void *, hive_str, hive_str, hive_str, double) noexcept {},
                              [](void *, hive_str, const double *, const double *, size_t, double, double) noexcept {}};
    const std::string deep(100000, '[');
    const std::string_view bodies[] = {"", "\0\0\0", "{", "nonsense", "a{b=\"", "a_bucket{le=\"x\"} 1\n", "{\"data\":[{\"id\":7}]}",
                                       "null", deep, "x 1e999\n\xff\xfe 3\n"};
    for (uint32_t page = 0; page < d->page_count; ++page) {
      for (const auto body : bodies) {
        const hive_bytes bytes{reinterpret_cast<const uint8_t *>(body.data()), body.size()};
        for (const uint32_t status : {200u, 404u, 503u}) t.parse_page(m.self(), page, status, bytes, &sink);
      }
    }
    for (const auto body : bodies) {
      for (const uint32_t status : {200u, 400u, 404u, 429u, 500u, 503u, 999u}) {
        hive_answer_class out{sizeof(hive_answer_class), 0, 0, {nullptr, 0}};
        const hive_bytes bytes{reinterpret_cast<const uint8_t *>(body.data()), body.size()};
        if (t.classify(m.self(), status, nullptr, 0, bytes, &out) < 0) continue;
        require(out.verdict >= HIVE_ANSWER_OK && out.verdict <= HIVE_ANSWER_UNKNOWN_MODEL,
                label(c) + " gives status " + std::to_string(status) + " no verdict");
      }
    }
  });
}

}  // namespace

plugins::plugin_description load_subject(const std::string &path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw broken("cannot be opened: " + std::string(std::strerror(errno)));
  bool mapped = false;
  auto d = plugins::load(fd, mapped);
  if (!d) throw broken(d.why().text());
  return std::move(*d);
}

const std::vector<check> &all_checks() {
  static const std::vector<check> list = {
      {"file-one-export", "the library exports its entry function and nothing else", one_export},
      {"file-no-unique", "the library has no unique symbols", no_unique},
      {"describe", "every rule about ids, tables, calls, fields and schemas holds", describes},
      {"entry-pure", "the entry function answers the same every time", entry_pure},
      {"create-destroy-100", "instances come and go with the default configuration", create_destroy},
      {"strategy-range", "a choice is in range and one of the candidates", strategy_range},
      {"strategy-none", "no candidates, no choice", strategy_none},
      {"strategy-repeats", "select changes nothing, and ties follow tie_seed", strategy_repeats},
      {"gate-repeats", "verdicts are repeatable and within bounds", gate_repeats},
      {"engine-garbage", "broken pages and answers are read safely", engine_garbage},
  };
  return list;
}

}  // namespace hive::check
