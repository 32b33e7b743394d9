#include "config/link_settings.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "base/digest.hpp"
#include "config/secret.hpp"

namespace hive::config {

void add_link_secret_rows(table &t, link_secret_sources &s, const std::string &shared_with) {
  // An agent reads the router's variables, too: most have one secret file for both.
  const std::string common = "HIVENET_ROUTER_";
  const auto also = [&](setting &row, const char *name) -> setting & { return t.prefix() == common ? row : row.also_env(common + name); };
  also(t.add("jwt-secret-file", &s.file, "",
             "File with the secret shared with the " + shared_with + ", at least 32 bytes; several, one a line, the newest first, while it "
             "is changed; read again on SIGHUP. Wins over the variable HIVENET_ROUTER_JWT_SECRET."), "JWT_SECRET_FILE").shown_as("PATH");
  also(t.add("jwt-secret", &s.text, "", "The shared secret itself."), "JWT_SECRET").no_flag().no_file().secret();
  also(t.add("jwt-secret-previous-file", &s.previous_file, "",
             "File with the secret before that one, which holds as well; read again on SIGHUP. Wins over the variable "
             "HIVENET_ROUTER_JWT_SECRET_PREVIOUS."), "JWT_SECRET_PREVIOUS_FILE").shown_as("PATH");
  also(t.add("jwt-secret-previous", &s.previous_text, "", "The secret before that one."), "JWT_SECRET_PREVIOUS").no_flag().no_file().secret();
}

namespace {

status add(const std::string &file, const std::string &text, const std::string &variable, std::vector<std::string> &into) {
  std::vector<std::string> more;
  if (!file.empty()) {
    auto read = read_secrets(file, min_shared_secret_bytes);
    if (!read) return read.why();
    more = *std::move(read);
  } else if (!text.empty()) {
    auto one = clean_secret(text, variable, min_shared_secret_bytes);
    if (!one) return one.why();
    more.push_back(*std::move(one));
  }
  for (std::string &each : more) {
    if (std::find(into.begin(), into.end(), each) == into.end()) into.push_back(std::move(each));
    else wipe(each);
  }
  return {};
}

status wiped(std::vector<std::string> &secrets, status why) {
  for (std::string &each : secrets) wipe(each);
  return why;
}

}  // namespace

result<std::vector<std::string>> read_link_secrets(const link_secret_sources &s) {
  std::vector<std::string> all;
  if (const status read = add(s.file, s.text, s.text_from, all); !read) return read;
  const bool any = !all.empty();
  if (const status read = add(s.previous_file, s.previous_text, s.previous_text_from, all); !read) return wiped(all, read);
  if (!any && !all.empty())
    return wiped(all, fail(errc::invalid, "a previous secret without one in use; set --jwt-secret-file or HIVENET_ROUTER_JWT_SECRET, too",
                             s.previous_file.empty() ? s.previous_text_from : s.previous_file));
  if (all.size() > most_link_secrets)
    return wiped(all, fail(errc::invalid, "there are " + std::to_string(all.size()) + " shared secrets; at most 8, of which two are in use "
                             "while one is changed", s.file.empty() ? s.previous_file : s.file));
  return all;
}

std::vector<std::string> judge_secret_files(const link_secret_sources &s) {
  std::vector<std::string> out;
  for (const std::string &file : {s.file, s.previous_file}) {
    if (everybody_may(file, S_IROTH))
      out.push_back(file + ": everybody on this machine can read the shared secret; run chmod o-r on it");
  }
  return out;
}

status is_peer_id(const std::string &text) {
  constexpr std::string_view digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  const bool good = text.size() == 52 && text.starts_with("12D3KooW") && text.find_first_not_of(digits) == std::string::npos;
  return good ? status()
              : fail(errc::invalid, "\"" + text + "\" is not a peer id; it is the text 12D3KooW... of 52 characters that the other side logs at its start");
}

}  // namespace hive::config
