// Policy documents: what is accepted is shown by the admin API in a form that gives the same document.
#include <boost/json/serialize.hpp>

#include "fuzz.hpp"
#include "routing/fixture.hpp"
#include "routing/policy_text.hpp"

using namespace hive;
using fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const routing::testing::test_source catalog;
  fuzz::input in(data, size);
  const uint8_t how = in.byte();
  const fuzz::exact_copy copy(in.rest());
  routing::policy_text_options options;
  options.strict = (how & 1) != 0;
  options.named = (how & 2) != 0;
  if (options.named) options.document = "doc";
  const auto parsed = routing::parse_policy(copy.text(), catalog, options);
  if (!parsed) {
    must(!parsed.why().message().empty(), "a refusal says why");
    return 0;
  }
  const routing::policy_document &d = *parsed->document;
  must(!d.steps.empty(), "there is a step");
  for (const auto &s : d.steps) {
    must(catalog.strategy(s.strategy.name) != nullptr || s.strategy.name == routing::compatibility::default_strategy, "its strategy exists");
    for (const auto &r : s.exclude_if) must(catalog.field(r.field).has_value(), "its fields exist");
  }
  const std::string json = boost::json::serialize(routing::to_json(d));
  if (json.size() > 60'000) return 0;
  const auto again = routing::parse_policy(json, catalog, options);
  must(again.ok(), "what is shown is accepted");
  must(boost::json::serialize(routing::to_json(*again->document)) == json, "and is the same document");
  return 0;
}
