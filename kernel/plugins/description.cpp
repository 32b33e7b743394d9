#include "plugins/description.hpp"

#include <boost/json.hpp>
#include <cmath>
#include <set>

#include "plugins/text.hpp"

namespace hive::plugins {
namespace {

namespace json = boost::json;
constexpr uint32_t max_components = 256;
constexpr size_t max_text = 64 << 10;

status refuse(std::string why) { return fail(errc::invalid, std::move(why)); }

bool grammatical(std::string_view id) {
  if (id.empty() || id.size() > 64) return false;
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (!plain(id.front())) return false;
  for (const char c : id) {
    if (!plain(c) && c != '_' && c != '-') return false;
  }
  return true;
}

uint32_t table_size(uint32_t kind) {
  switch (kind) {
    case HIVE_KIND_STRATEGY: return sizeof(hive_strategy_vtable);
    case HIVE_KIND_GATE: return sizeof(hive_gate_vtable);
    case HIVE_KIND_STORAGE: return sizeof(hive_storage_vtable);
    case HIVE_KIND_TRANSPORT: return sizeof(hive_transport_vtable);
    case HIVE_KIND_ENGINE: return sizeof(hive_engine_vtable);
  }
  return 0;
}

// The first required call that is missing, or null.
const char *missing_call(const hive_component &c) {
  const auto *gate = static_cast<const hive_gate_vtable *>(c.vtable);
  const bool instances = c.kind != HIVE_KIND_GATE || gate->evaluate != nullptr;
  if (instances && c.create == nullptr) return "create";
  if (instances && c.destroy == nullptr) return "destroy";
  switch (c.kind) {
    case HIVE_KIND_STRATEGY: {
      const auto *v = static_cast<const hive_strategy_vtable *>(c.vtable);
      return v->select == nullptr ? "select" : nullptr;
    }
    case HIVE_KIND_STORAGE: {
      const auto *v = static_cast<const hive_storage_vtable *>(c.vtable);
      if (v->open == nullptr) return "open";
      if (v->close == nullptr) return "close";
      if (v->get == nullptr) return "get";
      if (v->scan == nullptr) return "scan";
      return v->write == nullptr ? "write" : nullptr;
    }
    case HIVE_KIND_TRANSPORT: {
      const auto *v = static_cast<const hive_transport_vtable *>(c.vtable);
      if (v->start == nullptr) return "start";
      if (v->listen == nullptr) return "listen";
      if (v->connect == nullptr) return "connect";
      if (v->fd == nullptr) return "fd";
      if (v->pump == nullptr) return "pump";
      if (v->send == nullptr) return "send";
      if (v->close_peer == nullptr) return "close_peer";
      if (v->set_denied == nullptr) return "set_denied";
      return v->stop == nullptr ? "stop" : nullptr;
    }
    case HIVE_KIND_ENGINE: {
      const auto *v = static_cast<const hive_engine_vtable *>(c.vtable);
      if (v->describe == nullptr) return "describe";
      if (v->parse_page == nullptr) return "parse_page";
      return v->classify == nullptr ? "classify" : nullptr;
    }
  }
  return nullptr;
}

status describe_fields(const hive_gate_vtable &gate, const std::string &who, std::vector<field_description> &out) {
  if (gate.field_count == 0 || gate.field_count > 32 || gate.fields == nullptr) {
    return refuse(who + " must serve 1 to 32 fields, not " + std::to_string(gate.field_count));
  }
  std::set<std::string> seen;
  for (uint32_t i = 0; i < gate.field_count; ++i) {
    const hive_field *f = gate.fields[i];
    if (f == nullptr || f->struct_size < sizeof(hive_field)) {
      return refuse(who + ": field " + std::to_string(i) + " is null or smaller than this host's hive_field");
    }
    field_description d{text_of(f->name), text_of(f->unit), text_of(f->summary), text_of(f->column), f->rule, f->flags, f->min, f->max, i};
    if (!grammatical(d.name)) return refuse(who + ": the field name \"" + d.name.substr(0, 80) + "\" is not [a-z0-9][a-z0-9_-]*, at most 64");
    if (!seen.insert(d.name).second) return refuse(who + " names the field \"" + d.name + "\" twice");
    if (d.rule == HIVE_RULE_THRESHOLD) {
      if (d.column.empty()) return refuse(who + ": the threshold field \"" + d.name + "\" names no column");
      if (!(d.min <= d.max)) return refuse(who + ": the field \"" + d.name + "\" has no range, min must not exceed max");
    } else if (d.rule == HIVE_RULE_CUSTOM) {
      if (gate.evaluate == nullptr) return refuse(who + ": the field \"" + d.name + "\" is custom but the gate has no \"evaluate\"");
      if ((d.flags & HIVE_FIELD_SHED) != 0) return refuse(who + ": the custom field \"" + d.name + "\" cannot shed, only a threshold can");
    } else {
      return refuse(who + ": the field \"" + d.name + "\" has rule " + std::to_string(d.rule) + ", this host knows 1 (threshold) and 2 (custom)");
    }
    out.push_back(std::move(d));
  }
  return {};
}

result<component_description> describe_component(const hive_component *c, uint32_t place) {
  const std::string number = "component " + std::to_string(place);
  if (c == nullptr) return refuse(number + " is null");
  if (c->struct_size < sizeof(hive_component)) {
    return refuse(number + " is too small: hive_component has " + std::to_string(c->struct_size) + " bytes, this host needs " +
                  std::to_string(sizeof(hive_component)));
  }
  for (const hive_str s : {c->id, c->version, c->summary, c->config_schema}) {
    if ((s.ptr == nullptr && s.len != 0) || s.len > max_text) return refuse(number + " has a text that is null or longer than 64 KiB");
  }
  component_description d;
  d.kind = c->kind;
  d.id = text_of(c->id);
  d.version = text_of(c->version);
  d.summary = text_of(c->summary);
  d.needs = c->needs;
  d.table = c;
  if (!grammatical(d.id)) {
    return refuse(number + " has the id \"" + d.id.substr(0, 80) + "\", an id is [a-z0-9][a-z0-9_-]*, at most 64 characters");
  }
  const uint32_t size = table_size(d.kind);
  if (size == 0) return d;  // listed, not used
  const std::string who = std::string(kind_name(d.kind)) + " \"" + d.id + "\"";
  if (c->vtable == nullptr) return refuse(who + " has no table of calls");
  const uint32_t has = *static_cast<const uint32_t *>(c->vtable);
  if (has < size) {
    return refuse(who + " has a table of calls that is too small: " + std::to_string(has) + " bytes, this host needs " + std::to_string(size));
  }
  if (const char *call = missing_call(*c)) return refuse(who + " lacks the required call \"" + call + "\"");
  auto options = schema::parse(c->config_schema.len == 0 ? std::string_view("true") : view(c->config_schema));
  if (!options) return refuse("the configuration schema of " + who + ": " + options.why().text());
  if (auto st = options->check_defaults(); !st) return refuse("the configuration schema of " + who + ": " + st.text());
  d.options = std::move(*options);
  if (d.kind == HIVE_KIND_GATE) {
    if (auto st = describe_fields(*static_cast<const hive_gate_vtable *>(c->vtable), who, d.fields); !st) return st;
  }
  return d;
}

}  // namespace

std::string_view kind_name(uint32_t kind) {
  switch (kind) {
    case HIVE_KIND_STRATEGY: return "strategy";
    case HIVE_KIND_GATE: return "gate";
    case HIVE_KIND_STORAGE: return "storage";
    case HIVE_KIND_TRANSPORT: return "transport";
    case HIVE_KIND_ENGINE: return "engine";
  }
  return "unknown";
}

uint32_t kind_of(std::string_view name) {
  for (uint32_t k = HIVE_KIND_STRATEGY; k <= HIVE_KIND_ENGINE; ++k) {
    if (kind_name(k) == name) return k;
  }
  return 0;
}

result<plugin_description> describe(const hive_plugin *p) {
  if (p == nullptr) return refuse("its entry function answered null: it does not want to load here");
  if (p->struct_size < sizeof(hive_plugin)) {
    return refuse("its hive_plugin is too small: " + std::to_string(p->struct_size) + " bytes, this host needs " + std::to_string(sizeof(hive_plugin)));
  }
  if (p->abi_major != HIVE_ABI_MAJOR || p->abi_minor != HIVE_ABI_MINOR) {
    return refuse("it was built for ABI " + std::to_string(p->abi_major) + "." + std::to_string(p->abi_minor) + ", this host speaks " +
                  std::to_string(HIVE_ABI_MAJOR) + "." + std::to_string(HIVE_ABI_MINOR) + "; rebuild it against this version's sdk/");
  }
  if (p->component_count == 0 || p->component_count > max_components || p->components == nullptr) {
    return refuse("it claims " + std::to_string(p->component_count) + " components, a library holds 1 to 256");
  }
  for (const hive_str s : {p->id, p->version, p->vendor, p->license}) {
    if ((s.ptr == nullptr && s.len != 0) || s.len > max_text) return refuse("its hive_plugin has a text that is null or longer than 64 KiB");
  }
  plugin_description d{text_of(p->id), text_of(p->version), text_of(p->vendor), text_of(p->license), p->abi_major, p->abi_minor, {}};
  std::set<std::pair<uint32_t, std::string>> seen;
  for (uint32_t i = 0; i < p->component_count; ++i) {
    auto c = describe_component(p->components[i], i);
    if (!c) return c.why();
    if (!seen.emplace(c->kind, c->id).second) {
      return refuse("it holds two components of kind " + std::string(kind_name(c->kind)) + " with the id \"" + c->id + "\"");
    }
    d.components.push_back(std::move(*c));
  }
  return d;
}

json::value to_json(const plugin_description &d) {
  json::array components;
  for (const auto &c : d.components) {
    json::object o{{"kind", kind_name(c.kind)}, {"id", c.id}, {"version", c.version}, {"summary", c.summary}, {"needs", c.needs}};
    o["schema"] = c.options.document();
    if (!c.fields.empty()) {
      json::array fields;
      for (const auto &f : c.fields) {
        json::object one{{"name", f.name}, {"unit", f.unit}, {"summary", f.summary}, {"rule", f.rule == HIVE_RULE_CUSTOM ? "custom" : "threshold"}};
        if (f.rule == HIVE_RULE_THRESHOLD) {
          one["column"] = f.column;
          one["min"] = f.min;
          one["max"] = f.max;
          one["shed"] = (f.flags & HIVE_FIELD_SHED) != 0;
        }
        fields.push_back(std::move(one));
      }
      o["fields"] = std::move(fields);
    }
    components.push_back(std::move(o));
  }
  return json::object{{"id", d.id},
                      {"version", d.version},
                      {"vendor", d.vendor},
                      {"license", d.license},
                      {"abi", std::to_string(d.abi_major) + "." + std::to_string(d.abi_minor)},
                      {"components", std::move(components)}};
}

result<plugin_description> description_from_json(std::string_view text) {
  try {
    const json::value root = json::parse(json::string_view(text.data(), text.size()));
    const auto get = [](const json::object &o, const char *key) { return std::string(o.at(key).as_string()); };
    plugin_description d;
    const json::object &o = root.as_object();
    d.id = get(o, "id");
    d.version = get(o, "version");
    for (const auto &one : o.at("components").as_array()) {
      component_description c;
      c.kind = kind_of(one.at("kind").as_string());
      c.id = get(one.as_object(), "id");
      c.version = get(one.as_object(), "version");
      c.summary = get(one.as_object(), "summary");
      if (const json::value *fields = one.as_object().if_contains("fields")) {
        for (const auto &f : fields->as_array()) {
          field_description fd;
          fd.name = get(f.as_object(), "name");
          fd.bit = static_cast<uint32_t>(c.fields.size());
          c.fields.push_back(std::move(fd));
        }
      }
      d.components.push_back(std::move(c));
    }
    return d;
  } catch (const std::exception &e) {
    return fail(errc::corrupt, std::string("is not a description of a plugin: ") + e.what());
  }
}

}  // namespace hive::plugins
