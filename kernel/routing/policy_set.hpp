// All policy documents of one moment, each with where it came from, and how the next moment's follow from them and from the
// files on disk (docs/policy-api.md). Plain values; merging is pure but for the judge. Control thread, because the catalog is.
//
// Of a file and the admin API the later one rules. A document written through the API stands until its file is edited (its
// content differs from what it was when the document was written), which is noticed when files are read again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "routing/catalog.hpp"
#include "routing/policy.hpp"
#include "routing/policy_source.hpp"
#include "routing/snapshot.hpp"

namespace hive::routing {

inline constexpr const char *from_admin_api = "the admin API";

struct held_policy {
  std::shared_ptr<const policy_document> document;  // null: deleted through the API, while a file of that name is there
  std::string from;                                 // path of its file, or from_admin_api; empty = built in
  std::string file_hash;                            // of the file of that name when this came in; empty = there was none
  bool written = false;                             // through the admin API
  std::string text;                                 // as it was written there
};

struct policy_set {
  held_policy global{default_policy(), {}, {}, false, {}};
  std::map<std::string, held_policy> named;

  snapshot::named_documents documents() const;
  // Whose a model is already, documents other than `except` considered. Null: nobody's.
  const held_policy *owner_of(std::string_view model, std::string_view except) const;
};

// What is asked of every document beside its schema: whether this release and these plugins can carry it out. Messages need no
// place in front. errc::denied, of a provider that this router may not use, stops a start whosever document it is: without it the
// models of a named one would silently fall to the global rules.
using policy_judge = std::function<status(const policy_document &)>;

struct policy_rules {
  const component_catalog &catalog;
  policy_judge judge;      // may be empty
  bool strict = false;     // --strict-policy
};

// One document of a text; every error is told with `from` and, where there is one, the line.
result<std::shared_ptr<const policy_document>> read_document(const std::string &text, const std::string &from, const std::string &name,
                                                             const policy_rules &, std::vector<std::string> &warnings);
// Refuses a document whose models are another's, naming both.
status check_owners(const policy_set &, const policy_document &, const std::string &from);

struct policy_change {
  policy_set next;
  bool changed = false;                 // a file is new, edited or gone, or could not be taken
  status global;                        // why the global document stays what it was
  std::vector<status> problems;         // of named ones: each stays what it was, which may be nothing
  std::vector<std::string> warnings;
  std::vector<std::string> superseded;  // documents of the API that an edited file has replaced; "" = the global one
};
policy_change merge_policies(const policy_set &now, const policy_files &found, const policy_rules &);

}  // namespace hive::routing
