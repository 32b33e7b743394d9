#include "apps/first_request.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

namespace hive::apps {

namespace {

// Within single quotes of a shell.
std::string quoted(const std::string &text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += "'\\''";
    else out += c;
  }
  return out + "'";
}

std::string reachable(const std::string &address) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  if (host == "0.0.0.0") return "127.0.0.1" + address.substr(colon);
  if (host == "[::]") return "[::1]" + address.substr(colon);
  return address;
}

}  // namespace

std::string first_request(const fleet::registry &fleet, const std::string &scheme, const std::string &address) {
  const auto seen = fleet.snapshot();
  for (const auto &agent : seen->agents) {
    const auto info = agent->info();
    if (!agent->routable() || info->models.empty()) continue;
    const std::string model = boost::json::serialize(boost::json::string(info->models.front()));
    std::string path = "/v1/chat/completions";
    std::string body = "{\"model\":" + model + ",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}";
    if (info->capability == "embedding") {
      path = "/v1/embeddings";
      body = "{\"model\":" + model + ",\"input\":\"Hello\"}";
    } else if (info->capability == "reranker") {
      path = "/v1/rerank";
      body = "{\"model\":" + model + ",\"query\":\"Hello\",\"documents\":[\"Hello\",\"Goodbye\"]}";
    }
    return "curl " + scheme + "://" + reachable(address) + path + " -H 'Content-Type: application/json' -d " + quoted(body);
  }
  return {};
}

}  // namespace hive::apps
