#include "engine_sim/instant.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "engine_sim/json_read.hpp"

namespace hive::sim {

namespace json = boost::json;

namespace {

uint32_t hash_of(std::string_view text) {
  uint32_t h = 2166136261u;  // FNV-1a
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}

uint64_t tokens_of(std::string_view text) { return text.size() / 4 + 1; }

std::string usage_of(uint64_t tokens) {
  return "\"usage\":{\"prompt_tokens\":" + std::to_string(tokens) + ",\"total_tokens\":" + std::to_string(tokens) + ",\"completion_tokens\":0}";
}

// A text, a list of texts, a list of token ids, or a list of such lists: one text an input.
std::vector<std::string> inputs_of(const json::object &request, const char *key) {
  std::vector<std::string> out;
  const json::value *v = request.if_contains(key);
  if (v == nullptr) return out;
  const auto add = [&](const json::value &one) {
    if (one.is_string()) out.emplace_back(one.as_string());
    else if (one.is_object()) out.push_back(text_of(one.as_object(), "text"));
    else out.push_back(json::serialize(one));
  };
  if (v->is_array() && !v->as_array().empty() && !v->as_array()[0].is_number())
    for (const json::value &one : v->as_array()) add(one);
  else add(*v);
  return out;
}

std::vector<float> vector_of(std::string_view text, size_t dimensions) {
  std::vector<float> out(dimensions);
  uint32_t h = hash_of(text);
  for (float &v : out) {
    h = h * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int>(h >> 12 & 2047) - 1024) / 1024.0f;  // exact in text and in binary
  }
  return out;
}

std::string embedding(const std::vector<float> &v, bool base64) {
  if (!base64) {
    std::string out = "[";
    char number[24];
    for (const float f : v) {
      std::snprintf(number, sizeof number, "%.10g", static_cast<double>(f));
      (out += out.size() > 1 ? "," : "") += number;
    }
    return out + "]";
  }
  const size_t bytes = v.size() * sizeof(float);
  std::string text(sodium_base64_ENCODED_LEN(bytes, sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char *>(v.data()), bytes, sodium_base64_VARIANT_ORIGINAL);
  text.resize(std::strlen(text.c_str()));
  return "\"" + text + "\"";
}

std::string embeddings(const json::object &request, const std::string &) {
  const bool base64 = text_of(request, "encoding_format") == "base64";
  const auto dimensions = static_cast<size_t>(std::clamp<int64_t>(number_of(request, "dimensions", 8), 1, 1 << 20));
  std::string data;
  uint64_t tokens = 0;
  size_t index = 0;
  for (const std::string &text : inputs_of(request, "input")) {
    tokens += tokens_of(text);
    data += (index == 0 ? "" : ",") + std::string("{\"index\":") + std::to_string(index) + ",\"object\":\"embedding\",\"embedding\":" +
            embedding(vector_of(text, dimensions), base64) + "}";
    ++index;
  }
  return "{\"id\":\"embd-sim\",\"object\":\"list\",\"created\":1700000000,\"model\":" + quoted(text_of(request, "model")) + ",\"data\":[" + data +
         "]," + usage_of(tokens) + "}";
}

double score_of(const std::string &query, const std::string &document) { return double(hash_of(query + "\n" + document) % 1000) / 1000.0; }

std::string rerank(const json::object &request, const std::string &) {
  const std::string query = text_of(request, "query");
  const std::vector<std::string> documents = inputs_of(request, "documents");
  std::vector<size_t> order;
  uint64_t tokens = 0;
  for (size_t i = 0; i < documents.size(); ++i) {
    order.push_back(i);
    tokens += tokens_of(query) + tokens_of(documents[i]);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return score_of(query, documents[a]) > score_of(query, documents[b]); });
  order.resize(std::min(order.size(), static_cast<size_t>(std::max<int64_t>(0, number_of(request, "top_n", int64_t(order.size()))))));
  std::string results;
  for (const size_t i : order)
    results += (results.empty() ? "" : ",") + std::string("{\"index\":") + std::to_string(i) + ",\"document\":{\"text\":" + quoted(documents[i]) +
               ",\"multi_modal\":null},\"relevance_score\":" + std::to_string(score_of(query, documents[i])) + "}";
  return "{\"id\":\"score-sim\",\"model\":" + quoted(text_of(request, "model")) + ",\"usage\":{\"prompt_tokens\":" + std::to_string(tokens) +
         ",\"total_tokens\":" + std::to_string(tokens) + "},\"results\":[" + results + "]}";
}

std::string score(const json::object &request, const std::string &) {
  const std::vector<std::string> left = inputs_of(request, "text_1"), right = inputs_of(request, "text_2");
  std::string data;
  uint64_t tokens = 0;
  for (size_t i = 0; i < right.size() && !left.empty(); ++i) {
    const std::string &query = left[std::min(i, left.size() - 1)];
    tokens += tokens_of(query) + tokens_of(right[i]);
    data += (i == 0 ? "" : ",") + std::string("{\"index\":") + std::to_string(i) + ",\"object\":\"score\",\"score\":" +
            std::to_string(score_of(query, right[i])) + "}";
  }
  return "{\"id\":\"score-sim\",\"object\":\"list\",\"created\":1700000000,\"model\":" + quoted(text_of(request, "model")) + ",\"data\":[" + data +
         "]," + usage_of(tokens) + "}";
}

std::string count_tokens(const json::object &, const std::string &body) { return "{\"input_tokens\":" + std::to_string(tokens_of(body)) + "}"; }

std::string tokenize(const json::object &request, const std::string &) {
  const std::string text = text_of(request, "prompt", text_of(request, "content"));
  std::string ids;
  for (uint64_t i = 0; i < tokens_of(text); ++i) ids += (i == 0 ? "" : ",") + std::to_string(hash_of(text) % 1000 + i);
  return "{\"count\":" + std::to_string(tokens_of(text)) + ",\"max_model_len\":8192,\"tokens\":[" + ids + "],\"token_strs\":null}";
}

std::string transcription(const json::object &, const std::string &body) {
  return "{\"text\":\"heard " + std::to_string(body.size()) + " bytes\",\"usage\":{\"type\":\"duration\",\"seconds\":1}}";
}

// Not JSON: a second of silence would be as good.
std::string speech(const json::object &request, const std::string &) {
  const std::string text = text_of(request, "input");
  std::string sound = "RIFF";
  for (size_t i = 0; i < 64 * text.size(); ++i) sound += static_cast<char>(i * 7);
  return sound;
}

constexpr std::array<instant_route, 9> routes = {{
    {"/v1/embeddings", embeddings},
    {"/v1/rerank", rerank},
    {"/v1/score", score},
    {"/v1/messages/count_tokens", count_tokens},
    {"/tokenize", tokenize},
    {"/pooling", embeddings},
    {"/v1/audio/transcriptions", transcription, true},
    {"/v1/audio/translations", transcription, true},
    {"/v1/audio/speech", speech, false, "audio/wav"},
}};

}  // namespace

const instant_route *find_instant(std::string_view path) {
  const auto it = std::find_if(routes.begin(), routes.end(), [&](const instant_route &r) { return r.path == path; });
  return it == routes.end() ? nullptr : &*it;
}

void instant::on_body(http::body_ptr body) {
  const auto faulty = sim_.take_request(exchange_, *body);
  json::object request;
  if (!form_) {
    boost::system::error_code error;
    json::value parsed = json::parse(*body, error);
    if (error || !parsed.is_object())
      return reply(exchange_, 400, "application/json",
                   R"({"error":{"message":"invalid JSON","type":"BadRequestError","param":null,"code":400}})");
    request = std::move(parsed.as_object());
  }
  if (faulty && answer_faulty(exchange_, *faulty)) return;
  if (!form_ && !sim_.knows(text_of(request, "model", sim_.options_.models.front()))) return refuse_model(exchange_);
  ++sim_.served_;
  reply(exchange_, 200, type_, make_(request, *body));
}

void instant::on_body_failed(http::body_error) { reply(exchange_, 400, "application/json", R"({"detail":"bad body"})"); }
void instant::on_gone(http::gone) { ++sim_.gone_; }

}  // namespace hive::sim
