#include "routing/policy_library.hpp"

#include <boost/json/serialize.hpp>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "observe/log.hpp"

namespace hive::routing {

namespace {

auto &policy_log() { return observe::log("policy"); }

std::string shown(const std::string &name) { return name.empty() ? "the global policy" : "policy document '" + name + "'"; }

status as_invalid(const status &s) { return s.ok() || s.code() == errc::conflict ? s : fail(errc::invalid, s.message(), s.path()); }

const held_policy *held_of(const policy_set &set, const std::string &name) {
  if (name.empty()) return &set.global;
  const auto found = set.named.find(name);
  return found == set.named.end() ? nullptr : &found->second;
}

}  // namespace

std::string tag_of(const policy_document &d) { return '"' + sha256_hex(boost::json::serialize(to_json(d))).substr(0, 16) + '"'; }

// A stored document as if it had just been written. One that no longer fits is left out, but for the global one and one whose
// provider may not be used any more: without it other rules would hold than those that were asked for.
status policy_library::adopt(const policy_record &record, const policy_files &files, policy_set &into) {
  const policy_file *file = record.name.empty() ? (files.global ? &*files.global : nullptr) : files.find(record.name);
  if (record.deleted) {
    if (file != nullptr && !record.name.empty()) into.named[record.name] = {nullptr, from_admin_api, record.file_hash, true, {}};
    return {};
  }
  std::vector<std::string> warnings;
  const std::string from = shown(record.name) + ", written through the admin API";
  auto read = read_document(record.text, from, record.name, around_.rules, warnings);
  status why = read.why();
  if (read) why = check_owners(into, **read, from_admin_api);
  for (const std::string &w : warnings) policy_log().warn("{}", w);
  if (why) {
    held_policy &held = record.name.empty() ? into.global : into.named[record.name];
    held = {*std::move(read), from_admin_api, record.file_hash, true, record.text};
    return {};
  }
  const bool edited = file != nullptr && file->hash != record.file_hash;
  if (around_.rules.strict || (!edited && (record.name.empty() || why.code() == errc::denied)))
    return fail(why.code(), why.text() + "; start with --policy-store=false to leave out what the admin API wrote");
  policy_log().error("{} is left out: {}", shown(record.name), why.text());
  return {};
}

status policy_library::accept(policy_set next) {
  if (around_.check_all)
    if (const status s = around_.check_all(next); !s) return s;
  if (const status s = around_.routing.set_policies(next.global.document, next.documents()); !s) return s;
  now_ = std::move(next);
  if (around_.changed) around_.changed();
  return {};
}

status policy_library::start() {
  const auto files = read_policy_files(around_.places);
  if (!files) return files.why();
  policy_set stored;
  if (around_.store != nullptr) {
    const auto records = around_.store->read_all();
    if (!records) return records.why();
    for (const policy_record &each : *records)
      if (const status s = adopt(each, *files, stored); !s) return s;
  }
  policy_change change = merge_policies(stored, *files, around_.rules);
  if (!change.global.ok()) return change.global;
  if (around_.rules.strict && !change.problems.empty()) return change.problems.front();
  for (const status &s : change.problems)
    if (s.code() == errc::denied) return s;
  for (const std::string &w : change.warnings) policy_log().warn("{}", w);
  for (const status &s : change.problems) policy_log().error("a policy document is left out: {}", s.text());
  if (const status s = accept(std::move(change.next)); !s) return s;
  forget(change.superseded);
  if (!now_.global.from.empty() || !now_.named.empty())
    policy_log().info("the global policy is {}; {} document(s) for models", now_.global.from.empty() ? "the built-in one" : "from " + now_.global.from,
                      now_.documents().size());
  return {};
}

void policy_library::reload(std::string_view trigger, done_fn done) {
  if (!done) done = [](const status &) {};
  enter([this, trigger, done] { finish(around_.places.none() ? status() : reread(trigger), done); },
        [done](const status &s) {
          policy_log().error("the policy stays as it was: {}", s.text());
          done(s);
        });
}

status policy_library::reread(std::string_view trigger) {
  const auto refuse = [&](const status &s) {
    policy_log().error("the policy stays as it was: {}", s.text());
    count(trigger, false);
    return s;
  };
  const auto files = read_policy_files(around_.places);
  if (!files) return refuse(files.why());
  policy_change change = merge_policies(now_, *files, around_.rules);
  const bool folder = !around_.places.folder.empty();
  if (folder && !change.changed) {
    policy_log().info("no policy file has changed");
    return {};
  }
  for (const std::string &w : change.warnings) policy_log().warn("{}", w);
  if (!change.global.ok() && (!folder || around_.rules.strict)) return refuse(change.global);
  if (around_.rules.strict && !change.problems.empty()) return refuse(change.problems.front());
  if (const status s = accept(std::move(change.next)); !s) return refuse(s);
  forget(change.superseded);
  if (!change.global.ok()) policy_log().error("the policy stays as it was: {}", change.global.text());
  for (const status &s : change.problems) policy_log().error("a policy document stays as it was: {}", s.text());
  if (now_.global.written && files->global)
    policy_log().info("the global policy is the one written through the admin API: {} was not edited since", files->global->path);
  const status first = !change.global.ok() || change.problems.empty() ? change.global : change.problems.front();
  if (first) policy_log().info("policy loaded");
  count(trigger, first.ok());
  return first;
}

// Their files were edited later. A record that stays behind loses against the file at the next start just so.
void policy_library::forget(const std::vector<std::string> &names) {
  for (const std::string &name : names) {
    policy_log().info("{} comes from its file again, which was edited or is gone: what the admin API wrote is dropped", shown(name));
    if (around_.store == nullptr) continue;
    around_.store->erase(name, [name](const status &s) {
      if (!s) policy_log().warn("the stored form of {} could not be erased: {}", shown(name), s.text());
    });
  }
}

void policy_library::enter(std::function<void()> change, const done_fn &refused) {
  if (!changing_) {
    changing_ = true;
    return change();
  }
  if (waiting_.size() >= most_waiting) return refused(fail(errc::unavailable, "too many changes of policies wait already; try again"));
  waiting_.push_back(std::move(change));
}

void policy_library::leave() {
  changing_ = false;
  if (waiting_.empty()) return;
  const auto next = std::move(waiting_.front());
  waiting_.pop_front();
  changing_ = true;
  next();
}

void policy_library::finish(const status &s, const done_fn &done) {
  done(s);
  leave();
}

status policy_library::check_tag(const policy_write &w) const {
  if (w.if_match.empty()) return {};
  const held_policy *held = held_of(now_, w.name);
  const bool there = held != nullptr && held->document;
  if (there && w.if_match == "*") return {};
  const std::string tag = there ? tag_of(*held->document) : std::string();
  for (const std::string &each : split_trimmed(w.if_match, ','))
    if (there && each == tag) return {};
  return fail(errc::denied, there ? shown(w.name) + " is another one by now, with the ETag " + tag : shown(w.name) + " is not there");
}

status policy_library::judge_write(const policy_write &w, policy_set &next) {
  if (const status s = check_tag(w); !s) return s;
  std::vector<std::string> warnings;
  auto read = read_document(w.text, "policy", w.name, around_.rules, warnings);
  if (!read) return as_invalid(fail(errc::invalid, read.why().text()));
  if (const status s = check_owners(next, **read, from_admin_api); !s) return fail(s.code(), s.message());
  held_policy &held = w.name.empty() ? next.global : next.named[w.name];
  held = {*std::move(read), from_admin_api, held.file_hash, true, w.text};
  if (around_.check_all)
    if (const status s = around_.check_all(next); !s) return fail(errc::invalid, s.text());
  for (const std::string &line : warnings) policy_log().warn("{}: {}", shown(w.name), line);
  return {};
}

void policy_library::put(policy_write write, done_fn done) {
  const auto counted = [this, done](const status &s) {
    count("api", s.ok());
    done(s);
  };
  enter([this, write = std::move(write), counted] {
    policy_set next = now_;
    if (const status s = judge_write(write, next); !s) {
      policy_log().warn("{} stays as it was; what {} wrote through the admin API is refused: {}", shown(write.name), write.who, s.text());
      return finish(s, counted);
    }
    commit(write, std::move(next), true, counted);
  }, counted);
}

void policy_library::erase(policy_write write, done_fn done) {
  enter([this, write = std::move(write), done] {
    if (const status s = check_tag(write); !s) return finish(s, done);
    policy_set next = now_;
    if (write.name.empty()) {
      if (!now_.global.written) return commit(write, std::move(next), false, done);  // one may be stored that was left out at the start
      auto back = global_of_file();
      if (!back) return finish(as_invalid(back.why()), done);
      next.global = *std::move(back);
      return commit(write, std::move(next), false, done);
    }
    const auto found = next.named.find(write.name);
    if (found == next.named.end()) return commit(write, std::move(next), false, done);
    if (!found->second.document) return finish({}, done);
    const bool has_file = !found->second.file_hash.empty();
    if (has_file) found->second = {nullptr, from_admin_api, found->second.file_hash, true, {}};
    else next.named.erase(found);
    commit(write, std::move(next), has_file, done);
  }, done);
}

result<held_policy> policy_library::global_of_file() const {
  const auto files = read_policy_files(around_.places);
  if (!files) return files.why();
  policy_files one;
  one.global = files->global;
  policy_change change = merge_policies(policy_set(), one, around_.rules);
  if (!change.global.ok()) return change.global;
  return change.next.global;
}

// Stored first, so that whoever got the answer finds it again after any end of the process; put to work then.
void policy_library::commit(const policy_write &write, policy_set next, bool record, done_fn done) {
  const auto work = [this, write, next, done](const status &stored) {
    if (!stored) {
      policy_log().error("{} stays as it was: it could not be stored: {}", shown(write.name), stored.text());
      return finish(fail(errc::unavailable, "not stored, so nothing has changed: " + stored.text()), done);
    }
    if (const status s = accept(next); !s) {
      const held_policy *before = held_of(now_, write.name);
      if (around_.store != nullptr) {
        const auto told = [name = write.name](const status &again) {
          if (!again) policy_log().error("{}: the stored form could not be taken back: {}", shown(name), again.text());
        };
        if (before != nullptr && before->written)
          around_.store->write({write.name, before->text, before->file_hash, !before->document}, told);
        else
          around_.store->erase(write.name, told);
      }
      policy_log().error("{} stays as it was: {}", shown(write.name), s.text());
      return finish(fail(errc::internal, s.text()), done);
    }
    policy_log().info("{} was {} through the admin API by {}", shown(write.name), write.text.empty() ? "deleted" : "written", write.who);
    finish({}, done);
  };
  if (around_.store == nullptr) return work({});
  const held_policy *after = held_of(next, write.name);
  if (record) around_.store->write({write.name, after->text, after->file_hash, !after->document}, work);
  else around_.store->erase(write.name, work);
}

}  // namespace hive::routing
