#include "routing/policy_set.hpp"

#include <algorithm>

#include "routing/policy_text.hpp"

namespace hive::routing {

namespace {

std::string document(const std::string &name) { return "document '" + name + "'"; }

status claimed(const std::string &model, const std::string &owner, const std::string &owner_from, const std::string &name,
               const std::string &from) {
  return fail(errc::conflict, "model '" + model + "' is claimed by " + document(owner) + " (" + owner_from + ") already, so " + document(name) +
                                  " is refused whole: take the model out of one of the two", from);
}

// A new or edited file whose text is good.
struct candidate {
  const policy_file *file;
  std::shared_ptr<const policy_document> document;
  bool refused = false;
};

// Claims models in order: first what stays as it is, then the candidates, oldest file first. A candidate that comes too late
// leaves its predecessor standing, whose models are owned again: so all is judged anew until nobody falls out any more.
void settle(const std::map<std::string, held_policy> &kept, std::vector<candidate> &candidates, std::vector<status> &problems) {
  struct owner {
    const std::string *name;
    const std::string *from;
  };
  for (bool again = true; again;) {
    again = false;
    std::map<std::string_view, owner> owners;
    for (const auto &[name, held] : kept) {
      const bool replaced = std::any_of(candidates.begin(), candidates.end(),
                                        [&name = name](const candidate &c) { return !c.refused && c.file->name == name; });
      if (replaced || !held.document) continue;
      for (const std::string &model : held.document->models) owners.emplace(model, owner{&name, &held.from});
    }
    for (candidate &c : candidates) {
      if (c.refused) continue;
      const auto taken = std::find_if(c.document->models.begin(), c.document->models.end(),
                                      [&](const std::string &model) { return owners.contains(model); });
      if (taken != c.document->models.end()) {
        const owner &by = owners.at(*taken);
        problems.push_back(claimed(*taken, *by.name, *by.from, c.file->name, c.file->path));
        c.refused = true;
        if (kept.contains(c.file->name)) {
          again = true;
          break;
        }
        continue;
      }
      for (const std::string &model : c.document->models) owners.emplace(model, owner{&c.file->name, &c.file->path});
    }
  }
}

void merge_global(const policy_file *file, const policy_rules &rules, policy_change &out) {
  held_policy &now = out.next.global;
  if (file == nullptr) {
    if (now.written || now.from.empty()) return;
    out.changed = true;
    now = policy_set().global;
    return;
  }
  if (!file->hash.empty() && file->hash == now.file_hash) return;
  out.changed = true;
  auto read = file->unreadable.ok() ? read_document(file->text, file->path, {}, rules, out.warnings) : file->unreadable;
  if (!read) {
    out.global = read.why();
    return;
  }
  if (now.written) out.superseded.emplace_back();
  if (!(*read)->models.empty()) out.warnings.push_back(file->path + ": models has no effect in the global policy");
  now = {*std::move(read), file->path, file->hash, false, {}};
}

}  // namespace

snapshot::named_documents policy_set::documents() const {
  snapshot::named_documents out;
  for (const auto &[name, held] : named)
    if (held.document) out.emplace(name, held.document);
  return out;
}

const held_policy *policy_set::owner_of(std::string_view model, std::string_view except) const {
  for (const auto &[name, held] : named)
    if (name != except && held.document && std::find(held.document->models.begin(), held.document->models.end(), model) != held.document->models.end())
      return &held;
  return nullptr;
}

result<std::shared_ptr<const policy_document>> read_document(const std::string &text, const std::string &from, const std::string &name,
                                                             const policy_rules &rules, std::vector<std::string> &warnings) {
  policy_text_options options;
  options.file = from;
  options.document = name;
  options.strict = rules.strict;
  options.named = !name.empty();
  auto parsed = parse_policy(text, rules.catalog, options);
  if (!parsed) return parsed.why();
  if (rules.judge)
    if (const status s = rules.judge(*parsed->document); !s) return fail(s.code(), s.text(), from);
  warnings.insert(warnings.end(), parsed->warnings.begin(), parsed->warnings.end());
  return parsed->document;
}

status check_owners(const policy_set &set, const policy_document &document, const std::string &from) {
  for (const std::string &model : document.models)
    if (const held_policy *owner = set.owner_of(model, document.name))
      return claimed(model, owner->document->name, owner->from, document.name, from);
  return {};
}

policy_change merge_policies(const policy_set &now, const policy_files &found, const policy_rules &rules) {
  policy_change out;
  out.next = now;
  out.warnings = found.warnings;
  merge_global(found.global ? &*found.global : nullptr, rules, out);

  auto &kept = out.next.named;
  for (auto held = kept.begin(); held != kept.end();) {
    const bool gone = found.find(held->first) == nullptr;
    // What the API wrote needs no file; what it deleted, and what a file brought, goes with the file.
    if (!gone || (held->second.written && held->second.document)) {
      ++held;
      continue;
    }
    out.changed = true;
    if (held->second.written) out.superseded.push_back(held->first);
    held = kept.erase(held);
  }

  std::vector<candidate> candidates;
  for (const policy_file &file : found.named) {
    const auto held = kept.find(file.name);
    if (held != kept.end() && file.unreadable.ok() && held->second.file_hash == file.hash) continue;
    out.changed = true;
    if (!file.unreadable.ok()) {
      out.problems.push_back(file.unreadable);
      continue;
    }
    auto read = read_document(file.text, file.path, file.name, rules, out.warnings);
    if (read) candidates.push_back({&file, *std::move(read)});
    else out.problems.push_back(read.why());
  }
  settle(kept, candidates, out.problems);
  for (candidate &c : candidates) {
    if (c.refused) continue;
    held_policy &held = kept[c.file->name];
    if (held.written) out.superseded.push_back(c.file->name);
    held = {std::move(c.document), c.file->path, c.file->hash, false, {}};
  }
  return out;
}

}  // namespace hive::routing
