#include "fleet/agent_roster.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <future>

#include "config/yaml.hpp"

namespace hive::fleet {
namespace {

namespace json = boost::json;

constexpr std::string_view prefix = "agentRevoked:";
constexpr size_t most_file_bytes = 4 << 20;
constexpr std::string_view blanks = " \t\r";

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> out;
  while (!line.empty()) {
    const size_t from = line.find_first_not_of(blanks);
    if (from == std::string_view::npos) break;
    line.remove_prefix(from);
    const size_t length = std::min(line.find_first_of(blanks), line.size());
    out.emplace_back(line.substr(0, length));
    line.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::string encode(const revocation &r) {
  return json::serialize(json::object{{"form", 1}, {"reason", r.reason}, {"by", r.by}, {"since", r.since_unix_ms}});
}

std::optional<revocation> decode_revocation(std::string_view key, std::string_view value) {
  if (!key.starts_with(prefix)) return std::nullopt;
  boost::system::error_code error;
  const json::value about = json::parse(json::string_view(value.data(), value.size()), error);
  if (error || !about.is_object()) return std::nullopt;
  const json::object &o = about.get_object();
  const json::value *form = o.if_contains("form"), *reason = o.if_contains("reason"), *by = o.if_contains("by"), *since = o.if_contains("since");
  if (form == nullptr || !form->is_int64() || form->get_int64() != 1) return std::nullopt;
  if (reason == nullptr || !reason->is_string() || by == nullptr || !by->is_string() || since == nullptr || !since->is_int64()) return std::nullopt;
  revocation r;
  r.peer_id = key.substr(prefix.size());
  r.reason = reason->get_string();
  r.by = by->get_string();
  r.since_unix_ms = static_cast<uint64_t>(since->get_int64());
  if (!link::curve_key_of(r.peer_id)) return std::nullopt;
  return r;
}

result<agent_lines> parse_agent_lines(std::string_view text, const std::string &where, bool models) {
  agent_lines out;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::vector<std::string> words = words_of(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (words.empty() || words.front().starts_with('#')) continue;
    const std::string at = where + ":" + std::to_string(number);
    if (!link::curve_key_of(words.front()))
      return fail(errc::invalid, "the line begins with no peer id; write one like 12D3KooW..., the text of 52 characters that the agent logs at its start", at);
    if (!models && words.size() > 1)
      return fail(errc::invalid, "something stands behind the peer id; write one a line, remarks in lines that begin with #", at);
    std::string id = std::move(words.front());
    words.erase(words.begin());
    if (!out.emplace(std::move(id), std::move(words)).second) return fail(errc::invalid, "this peer id stands in a line above, too; remove one", at);
  }
  return out;
}

status agent_roster::read_files(const files &from, agent_lines &revoked, std::optional<agent_lines> &agents) {
  const auto lines_of = [](const std::string &path, bool models) -> result<agent_lines> {
    const auto text = config::yaml::read_file(path, most_file_bytes);
    if (!text) return text.why();
    return parse_agent_lines(*text, path, models);
  };
  if (!from.revoked.empty()) {
    auto lines = lines_of(from.revoked, false);
    if (!lines) return lines.why();
    if (lines->size() > most_revoked)
      return fail(errc::exhausted, "revokes " + std::to_string(lines->size()) + " agents; at most 4096. Change the shared secret instead", from.revoked);
    revoked = *std::move(lines);
  }
  if (!from.agents.empty()) {
    auto lines = lines_of(from.agents, true);
    if (!lines) return lines.why();
    agents = *std::move(lines);
  }
  return {};
}

status agent_roster::check(const files &from) {
  agent_lines revoked;
  std::optional<agent_lines> agents;
  return read_files(from, revoked, agents);
}

status agent_roster::start() {
  struct found {
    std::vector<revocation> all;
    std::string corrupt;
  };
  auto answer = std::make_shared<std::promise<result<found>>>();
  auto read = answer->get_future();
  const bool posted = storage_.post([answer](storage_client &client) {
    found out;
    const status s = client.scan(prefix, [&](std::string_view key, std::string_view value) {
      if (auto one = decode_revocation(key, value)) out.all.push_back(*std::move(one));
      else out.corrupt = key;
      return true;
    });
    if (s) answer->set_value(std::move(out));
    else answer->set_value(s);
  });
  if (!posted) return fail(errc::unavailable, "the revoked agents cannot be read: the storage thread's line is full, or it has stopped", "storage");
  const auto all = read.get();
  if (!all) return fail(errc::unavailable, "the revoked agents cannot be read: " + all.why().text(), "storage");
  if (!all->corrupt.empty()) return fail(errc::corrupt, "record " + all->corrupt + " is damaged or of a newer release", "storage");
  for (const revocation &r : all->all) by_word_[r.peer_id] = r;
  return read_files(files_, by_file_, listed_);
}

status agent_roster::reload() {
  agent_lines revoked;
  std::optional<agent_lines> agents;
  if (const status s = read_files(files_, revoked, agents); !s) return s;
  by_file_ = std::move(revoked);
  listed_ = std::move(agents);
  tell();
  return {};
}

std::optional<roster_refusal> agent_roster::judge(std::string_view peer_id, const std::vector<std::string> &models) const {
  if (own_.contains(std::string(peer_id))) return std::nullopt;
  if (by_word_.contains(peer_id) || by_file_.contains(peer_id)) return roster_refusal{"revoked", "the operator has revoked this identity"};
  if (!listed_) return std::nullopt;
  const auto found = listed_->find(peer_id);
  if (found == listed_->end()) return roster_refusal{"unlisted", "this identity is not in the router's list of agents (--agents-file)"};
  const std::vector<std::string> &may = found->second;
  for (const std::string &model : models)
    if (!may.empty() && std::find(may.begin(), may.end(), model) == may.end())
      return roster_refusal{"unlisted", "the router's list of agents (--agents-file) does not let this one serve model '" + model + "'"};
  return std::nullopt;
}

std::vector<revocation> agent_roster::revoked() const {
  std::map<std::string, revocation> all(by_word_.begin(), by_word_.end());
  for (const auto &[id, none] : by_file_) {
    revocation &r = all[id];
    r.peer_id = id;
    r.of_file = true;
  }
  std::vector<revocation> out;
  for (auto &[id, r] : all) out.push_back(std::move(r));
  return out;
}

std::vector<link::key32> agent_roster::denied_keys() const {
  std::vector<link::key32> out;
  for (const auto &each : by_word_)
    if (const auto key = link::curve_key_of(each.first)) out.push_back(*key);
  for (const auto &each : by_file_)
    if (const auto key = link::curve_key_of(each.first); key && !by_word_.contains(each.first)) out.push_back(*key);
  return out;
}

status agent_roster::revoke(const std::string &peer_id, const std::string &reason, const std::string &by, done_fn done) {
  if (const auto key = link::curve_key_of(peer_id); !key) return key.why();
  if (own_.contains(peer_id)) return fail(errc::conflict, "this agent is inside the router; take its engine out of the configuration");
  if (by_word_.size() >= most_revoked && !by_word_.contains(peer_id))
    return fail(errc::exhausted, "4096 agents are revoked already; change the shared secret instead");
  revocation &r = by_word_[peer_id];
  if (r.peer_id.empty()) r.since_unix_ms = clock_.wall_ms();
  r.peer_id = peer_id;
  r.reason = reason;
  r.by = by;
  tell();
  store({std::string(prefix).append(peer_id), encode(r), 0, false}, std::move(done));
  return {};
}

status agent_roster::restore(const std::string &peer_id, done_fn done) {
  if (by_file_.contains(peer_id))
    return fail(errc::conflict, "this agent is revoked in " + files_.revoked + "; take the line out there and send SIGHUP");
  if (by_word_.erase(peer_id) == 0) return fail(errc::not_found, "this agent is not revoked");
  tell();
  store({std::string(prefix).append(peer_id), {}, 0, true}, std::move(done));
  return {};
}

void agent_roster::store(stored_write what, done_fn done) {
  storage_.write({std::move(what)}, control_, std::move(done));
}

}  // namespace hive::fleet
