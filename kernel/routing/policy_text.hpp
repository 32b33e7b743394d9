// YAML (or JSON) text of a policy document to the document, checked against what the enabled plugins offer. Pure; control
// thread, because the catalog belongs to it. First error wins, unless all are asked for, in the order mode, limits, shed_if, first
// step, fallback steps, provider, models.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "routing/catalog.hpp"
#include "routing/policy.hpp"

namespace hive::routing {

struct policy_text_options {
  std::string file = "policy";   // stands in messages
  std::string document;          // empty = the global document
  bool strict = false;           // --strict-policy: an unknown key is an error
  bool named = false;            // `models` is required
  std::vector<status> *every = nullptr;  // gets all problems; then the document that comes back is good only if there are none
};

struct parsed_policy {
  std::shared_ptr<const policy_document> document;
  std::vector<std::string> warnings;  // "FILE:LINE: ...", ready for the log
};

result<parsed_policy> parse_policy(std::string_view text, const component_catalog &, const policy_text_options & = {});

}  // namespace hive::routing
