#include "config/embedded_agents.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "config/address.hpp"

namespace hive::config {
namespace {

struct written_backend {
  std::string engine = engine_to_be_found;
  std::string url;
};

result<written_backend> parse_backend(const std::string &text) {
  const auto is_url = [](std::string_view t) { return t.starts_with("http://") || t.starts_with("https://"); };
  written_backend out;
  const size_t equals = text.find('=');
  if (is_url(text) || equals == std::string::npos) {
    out.url = text;
  } else {
    out.engine = text.substr(0, equals);
    out.url = text.substr(equals + 1);
    if (const status good = is_component_id(out.engine); !good) return good;
  }
  auto url = parse_base_url(out.url);
  if (!url) return fail(errc::invalid, url.why().message() + ", or vllm=http://localhost:8888");
  out.url = *std::move(url);
  return out;
}

// The table of one agent; the rows write into `into`.
void add_rows(table &t, embedded_agent &into) {
  t.add("name", &into.name, "", "Who the agent is over restarts; its URL if not given.").check(is_label);
  add_embedded_rows(t, into.settings);
}

void indent(const std::string &text, std::string &out) {
  bool first = true;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1);
    out += (first ? "  - " : "    ") + text.substr(at, end + 1 - at);
    first = false;
    at = end + 1;
  }
}

// "10.0.0.5:8000" of a base URL.
std::string authority_of(const std::string &url) {
  const size_t from = url.find("://") + 3;
  return url.substr(from, url.find('/', from) - from);
}

}  // namespace

status is_backend(const std::string &text) { return parse_backend(text).why(); }

void read_embedded_agents(const yaml::node &block, std::vector<embedded_agent> &out, std::vector<status> &problems) {
  if (const status list = block.want_list(); !list) return problems.push_back(list);
  for (const yaml::node &item : block.items()) {
    const size_t before = problems.size();
    if (!item.is_map()) {
      problems.push_back(item.wrong("each agent is a map; write one like {url: http://localhost:8888}"));
      continue;
    }
    embedded_agent one;
    table t("an embedded agent", "");
    add_rows(t, one);
    t.apply_built_in();
    t.apply_file(item, {}, problems);
    one.where = item.where() + ": " + item.path();
    if (one.settings.backend_url.empty() && problems.size() == before)
      problems.push_back(item.wrong("url is missing; write one like url: http://localhost:8888"));
    if (problems.size() > before) continue;
    if (t.origin_of("machine") == origin::built_in) one.settings.machine.clear();
    indent(t.resolved(), one.shown);
    out.push_back(std::move(one));
  }
}

void finish_embedded_agents(const std::vector<std::string> &backends, const std::string &program_version,
                            std::vector<embedded_agent> &all, std::vector<status> &problems) {
  std::vector<embedded_agent> in_front;
  for (const std::string &text : backends) {
    auto backend = parse_backend(text);
    if (!backend) continue;  // told when it was read
    embedded_agent one;
    table t("an embedded agent", "");
    add_rows(t, one);
    t.apply_built_in();
    one.settings.engine = std::move(backend->engine);
    one.settings.backend_url = std::move(backend->url);
    one.settings.machine.clear();
    one.where = "--backend " + text;
    in_front.push_back(std::move(one));
  }
  all.insert(all.begin(), std::make_move_iterator(in_front.begin()), std::make_move_iterator(in_front.end()));

  for (auto each = all.begin(); each != all.end(); ++each) {
    agent_settings &s = each->settings;
    if (auto url = parse_base_url(s.backend_url)) s.backend_url = *std::move(url);
    if (s.version.empty()) s.version = program_version;
    if (s.machine.empty()) s.machine = authority_of(s.backend_url);
    const bool named = !each->name.empty();
    if (!named) each->name = s.backend_url;
    const auto same = std::find_if(all.begin(), each, [&](const embedded_agent &other) { return other.name == each->name; });
    if (same != each)
      problems.push_back(fail(errc::invalid, "\"" + each->name + "\" stands at " + same->where + " already; " +
                                                 (named ? "use another name" : "give one of the two a name, in embedded_agents"), each->where));
  }
}

std::string show_embedded_agents(const std::vector<embedded_agent> &all) {
  std::string out;
  for (const embedded_agent &each : all) out += each.shown;
  return out.empty() ? out : "embedded_agents:\n" + out;
}

}  // namespace hive::config
