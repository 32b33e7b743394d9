#include "plugins/report.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "plugins/instance.hpp"

namespace hive::plugins {
namespace {

namespace json = boost::json;

json::object instance_json(const instance &i) {
  const auto s = i.stats().read();
  json::object o{{"name", i.name()},
                 {"component", std::string(kind_name(i.what().kind())) + "/" + i.what().id()},
                 {"where", i.where()},
                 {"calls", s.calls},
                 {"failures", s.failures},
                 {"wrong_answers", s.wrong_answers},
                 {"circuit", i.breaker().open() ? "open" : "closed"}};
  if (s.sampled != 0) {
    o["sampled_calls"] = s.sampled;
    o["p50_ns"] = s.p50_ns;
    o["p99_ns"] = s.p99_ns;
    o["max_ns"] = s.max_ns;
  }
  if (!s.last_error.empty()) o["last_error"] = s.last_error;
  return o;
}

json::object library_json(const component_registry &r, const library &l) {
  json::object o{{"name", l.name}, {"file", l.file}, {"state", to_string(l.state)}, {"mapped", l.mapped}, {"packaged", l.trusted}};
  if (!l.sha256.empty()) o["sha256"] = l.sha256;
  if (!l.reason.empty()) o["reason"] = l.reason;
  const auto d = to_json(l.description);
  for (const char *key : {"version", "vendor", "license", "components"}) o[key] = d.at(key);
  if (l.description.id.empty()) o.erase("license"), o.erase("vendor"), o.erase("version");
  if (l.state == library_state::loaded) o["abi"] = d.at("abi");
  o["abi_host"] = std::to_string(HIVE_ABI_MAJOR) + "." + std::to_string(HIVE_ABI_MINOR);
  json::array instances;
  r.each_instance([&](const instance &i) {
    if (i.what().from == &l) instances.push_back(instance_json(i));
  });
  o["instances"] = std::move(instances);
  return o;
}

}  // namespace

json::value report(const component_registry &r) {
  json::array all;
  for (const auto &l : r.libraries()) all.push_back(library_json(r, *l));
  return json::object{{"plugins", std::move(all)}};
}

json::value report(const component_registry &r, std::string_view name) {
  for (const auto &l : r.libraries()) {
    if (l->name == name) return library_json(r, *l);
  }
  return nullptr;
}

std::string table(const component_registry &r) {
  size_t width = 4;
  for (const auto &l : r.libraries()) width = std::max(width, l->name.size());
  const auto pad = [](std::string s, size_t n) {
    if (s.size() < n) s.append(n - s.size(), ' ');
    return s + "  ";
  };
  std::string out = pad("NAME", width) + pad("STATE", 8) + pad("VERSION", 8) + "COMPONENTS\n";
  for (const auto &l : r.libraries()) {
    out += pad(l->name, width) + pad(std::string(to_string(l->state)), 8) + pad(l->description.version.empty() ? "-" : l->description.version, 8);
    std::string components;
    for (const auto &c : l->description.components) {
      components += (components.empty() ? "" : ", ") + std::string(kind_name(c.kind)) + "/" + c.id;
      for (size_t i = 0; i < c.fields.size(); ++i) components += (i == 0 ? " (" : " ") + c.fields[i].name + (i + 1 == c.fields.size() ? ")" : "");
    }
    out += components.empty() ? "-\n" : components + "\n";
    if (!l->reason.empty()) out += "    " + l->reason + (l->mapped && l->state != library_state::loaded ? "; its code stays mapped in this process\n" : "\n");
  }
  return out;
}

}  // namespace hive::plugins
