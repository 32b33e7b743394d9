// The YAML front: bounded trees, readers that never fail badly, and what is accepted says the same when written out as JSON.
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

#include "config/yaml.hpp"
#include "fuzz.hpp"

using namespace hive;
using fuzz::must;
namespace yaml = config::yaml;

namespace {

constexpr yaml::limits bounds{.bytes = 64 * 1024, .depth = 24, .nodes = 2000};

struct walk_facts {
  size_t nodes = 0;
  bool long_key = false;
};

void walk(const yaml::node &n, size_t depth, walk_facts &facts) {
  ++facts.nodes;
  must(depth <= bounds.depth, "bounded depth");
  must(n.line() >= 0 && !n.where().empty(), "every node has a place");
  const auto said = [](const auto &r) {
    must(r || r.why().message().find("f.yaml") != std::string::npos || !r.why().path().empty(), "a reader's error says where");
  };
  said(n.as_text());
  said(n.as_bool());
  said(n.as_int());
  const auto number = n.as_number();
  said(number);
  must(!number || (*number == *number && *number - *number == 0), "a number is finite");
  said(n.as_duration_ns());
  said(n.as_texts());
  (void)n.want_map();
  (void)n.want_list();
  must(n.is_map() || n.entries().empty(), "only a map has entries");
  must(n.is_list() || n.items().empty(), "only a list has items");
  (void)n.unknown_keys({"model", "strategy"});
  for (size_t i = 0; i < n.entries().size(); ++i) {
    const auto &e = n.entries()[i];
    facts.long_key = facts.long_key || boost::json::serialize(boost::json::string(e.key)).size() > 1000;
    must(n.find(e.key) == &e.value, "a key stands there once");
    walk(e.value, depth + 1, facts);
  }
  for (const auto &item : n.items()) walk(item, depth + 1, facts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const fuzz::exact_copy copy({reinterpret_cast<const char *>(data), size});
  const auto root = yaml::parse(copy.text(), "f.yaml", bounds);
  if (!root) {
    must(!root.why().message().empty(), "a refusal says why");
    return 0;
  }
  must(size <= bounds.bytes, "bounded text");
  walk_facts facts;
  walk(*root, 0, facts);
  must(facts.nodes <= bounds.nodes + 1, "bounded nodes");
  const std::string json = boost::json::serialize(root->to_json());
  if (facts.long_key || json.size() > bounds.bytes) return 0;  // a key of YAML may have 1024 characters, escapes counted
  const auto again = yaml::parse(json, "f.yaml", bounds);
  must(again.ok(), "its JSON is accepted");
  must(boost::json::serialize(again->to_json()) == json, "and says the same");
  return 0;
}
