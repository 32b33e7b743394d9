#include "gateway/models_view.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>
#include <vector>

#include "base/text.hpp"

namespace hive::gateway {

namespace json = boost::json;

namespace {

void put_if(json::object &o, const char *key, const std::string &value) {
  if (!value.empty()) o[key] = value;
}

struct model_entry {
  std::string pretty_name, info, capability, organization, alias_of;
  bool hide = false;
  uint64_t total = 0, healthy = 0, capacity = 0, created_s = 0;
  std::set<std::string> engines, regions;
};

std::map<std::string, model_entry> models_of(const fleet::registry &registry, const model_names *names) {
  std::map<std::string, model_entry> models;
  const auto snapshot = registry.snapshot();
  for (const auto &a : snapshot->agents) {
    const auto info = a->info();
    for (const std::string &id : info->models) {
      model_entry &m = models[id];
      const auto first = [](std::string &to, const std::string &from) { if (to.empty()) to = from; };
      first(m.pretty_name, info->llm_pretty_name);
      first(m.info, info->llm_info);
      first(m.capability, info->capability);
      first(m.organization, info->organization);
      m.hide = m.hide || info->hide_llm;
      ++m.total;
      m.healthy += a->healthy();
      m.capacity += info->capacity;
      if (!info->engine.empty()) m.engines.insert(info->engine);
      if (!info->region.empty()) m.regions.insert(info->region);
      const uint64_t since = a->online_since_unix_ms.load() / 1000;
      m.created_s = m.created_s == 0 ? since : std::min(m.created_s, since);
    }
  }
  if (names == nullptr) return models;
  // An alias of a model that nobody serves cannot be asked for, and is not shown.
  std::map<std::string, model_entry> aliases;
  const auto table = names->all();  // kept through the loop
  for (const config::model_alias &each : *table) {
    const auto model = models.find(each.model);
    if (model == models.end()) continue;
    aliases[each.alias] = model->second;
    aliases[each.alias].alias_of = each.model;
  }
  for (auto &[alias, entry] : aliases) models[alias] = std::move(entry);
  return models;
}

const std::string &own_name(const std::string &id, const model_entry &m) { return m.alias_of.empty() ? id : m.alias_of; }

json::object model_json(const std::string &id, const model_entry &m) {
  json::object o;
  o["id"] = id;
  o["object"] = "model";
  o["created"] = m.created_s;
  o["owned_by"] = m.organization.empty() || m.organization == "Unknown" ? std::string("hivenet") : m.organization;
  put_if(o, "pretty_name", m.pretty_name);
  put_if(o, "info", m.info);
  put_if(o, "capability", m.capability);
  if (m.hide) o["hide_llm"] = true;
  put_if(o, "alias_of", m.alias_of);
  o["agents"] = json::object{{"total", m.total},
                             {"healthy", m.healthy},
                             {"total_capacity", m.capacity},
                             {"engines", json::array(m.engines.begin(), m.engines.end())},
                             {"regions", json::array(m.regions.begin(), m.regions.end())}};
  return o;
}

void add_anthropic_fields(json::object &o, const std::string &id, const model_entry &m) {
  o["type"] = "model";
  o["display_name"] = m.pretty_name.empty() ? id : m.pretty_name;
  o["created_at"] = rfc3339_ms(m.created_s * 1000);
}

}  // namespace

std::string models_view::list(viewer who, bool anthropic) const {
  json::array data;
  auto models = models_of(registry_, names_);
  if (who != nullptr) std::erase_if(models, [who](const auto &m) { return !who->may_use(own_name(m.first, m.second)); });
  for (const auto &[id, m] : models) {
    json::object o = model_json(id, m);
    if (anthropic) add_anthropic_fields(o, id, m);
    data.push_back(std::move(o));
  }
  json::object page{{"object", "list"}, {"data", std::move(data)}};
  if (anthropic) {
    page["has_more"] = false;
    page["first_id"] = models.empty() ? json::value(nullptr) : json::value(models.begin()->first);
    page["last_id"] = models.empty() ? json::value(nullptr) : json::value(models.rbegin()->first);
  }
  return json::serialize(page);
}

std::string models_view::detail(std::string_view model, viewer who, bool anthropic) const {
  const auto models = models_of(registry_, names_);
  const auto it = models.find(std::string(model));
  if (it == models.end()) return {};
  const std::string &served = own_name(it->first, it->second);
  if (who != nullptr && !who->may_use(served)) return {};
  json::object o = model_json(it->first, it->second);
  if (anthropic) add_anthropic_fields(o, it->first, it->second);
  if (!show_agents_) return json::serialize(o);
  json::array list;
  const auto snapshot = registry_.snapshot();
  for (const auto &a : snapshot->agents) {
    const auto info = a->info();
    if (std::find(info->models.begin(), info->models.end(), served) == info->models.end()) continue;
    json::object entry;
    entry["peer_id"] = a->peer_id();
    put_if(entry, "engine", info->engine);
    put_if(entry, "version", info->version);
    put_if(entry, "region", info->region);
    put_if(entry, "organization", info->organization);
    put_if(entry, "machine", info->machine);
    entry["capacity"] = info->capacity;
    entry["is_healthy"] = a->healthy();
    entry["last_seen"] = a->last_seen_unix_ms.load() / 1000;
    list.push_back(std::move(entry));
  }
  if (!list.empty()) o["agents"].as_object()["list"] = std::move(list);
  return json::serialize(o);
}

std::string models_view::near(std::string_view model, viewer who) const {
  std::vector<std::string> ids;
  for (const auto &[id, m] : models_of(registry_, names_))
    if (who == nullptr || who->may_use(own_name(id, m))) ids.push_back(id);
  return nearest(model, ids);
}

}  // namespace hive::gateway
