// The scan of a request's JSON: agrees with RFC 8259 about what is one object, reads nothing behind the body, and the places it
// reports can be spliced.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz.hpp"
#include "gateway/request_scan.hpp"
#include "json_oracle.hpp"

using namespace hive;
using fuzz::must;
using gateway::request_scan;

namespace {

constexpr size_t padding = 64;

// A body as the server holds it, with `behind` in the padding.
struct padded {
  padded(std::string_view text, char behind) : bytes(text.size() + padding, behind), size(text.size()) {
    std::copy(text.begin(), text.end(), bytes.begin());
  }
  std::string_view text() const { return {bytes.data(), size}; }
  std::vector<char> bytes;
  size_t size;
};

bool same(const request_scan &a, const request_scan &b) {
  return a.model == b.model && a.stream == b.stream && a.include_usage == b.include_usage &&
         a.max_tokens == b.max_tokens && a.max_completion_tokens == b.max_completion_tokens && a.max_output_tokens == b.max_output_tokens &&
         a.most_output(false) == b.most_output(false) && a.output_footprint(false) == b.output_footprint(false) &&
         a.text_bytes == b.text_bytes && a.text_entries == b.text_entries && a.text_quarters == b.text_quarters &&
         a.messages == b.messages && a.images == b.images;
}

// Where engines fold names the last one counts, so no second spelling of a field that decides may come in.
void check_spellings(gateway::request_scanner &scanner, std::string_view body, const request_scan &first) {
  for (const char *field : {"\"Model\":\"x\",", "\"\\u004dODEL\":\"x\",", "\"\xc5\xbftream\":true,"}) {
    std::string text(body);
    text.insert(first.object_at + 1, field);
    const padded p(text, '}');
    request_scan out;
    const auto refusal = scanner.scan(p.text(), out);
    must(refusal && refusal->message.find("write \"") != std::string::npos, "another spelling is refused");
  }
}

void check_splices(gateway::request_scanner &scanner, std::string_view body, const request_scan &first) {
  const auto rescan = [&](std::string text) {
    request_scan out;
    const padded p(text, '}');
    must(!scanner.scan(p.text(), out), "a spliced body is accepted");
    return out;
  };
  std::string aliased(body);
  aliased.replace(first.model_at.offset, first.model_at.length, "\"the/engine's own id\"");
  request_scan other = rescan(aliased);
  must(other.model == "the/engine's own id", "the model is replaced");
  other.model = first.model;
  must(same(first, other), "and nothing else");

  std::string asked(body);
  if (first.stream_options_at.present()) {
    const auto at = first.stream_options_at;
    must(body[at.offset] == '{' && body[at.offset + at.length - 1] == '}', "stream_options is an object");
    asked.replace(at.offset, at.length, "{\"include_usage\":true}");
    request_scan with = rescan(asked);
    must(with.include_usage, "usage is asked for");
    with.include_usage = first.include_usage;
    must(same(first, with), "and nothing else");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static gateway::request_scanner scanner;
  const std::string_view body(reinterpret_cast<const char *>(data), size);
  const fuzz::json_oracle truth(body);
  request_scan out, again;
  const padded zeros(body, '\0'), braces(body, '}'), quotes(body, '"');
  const auto refusal = scanner.scan(zeros.text(), out);
  for (const padded *other : {&braces, &quotes}) {
    const auto second = scanner.scan(other->text(), again);
    must(second.has_value() == refusal.has_value() && (refusal || same(out, again)), "what stands behind the body does not matter");
    // Which of two true refusals it is may depend on it: simdjson looks closer when a bracket stands there (its issue 1834).
    must(!refusal || (!second->message.empty() && second->offset <= size), "a refusal says why and where");
  }
  if (refusal) {
    must(!refusal->message.empty() && refusal->offset <= size, "a refusal says why and where");
    if (truth.valid && truth.object && !truth.lone_surrogate)
      must(refusal->message.find("not valid JSON") == std::string::npos, "JSON is not called broken");
    return 0;
  }
  must(truth.valid && truth.object, "only one JSON object is accepted");
  must(truth.depth <= gateway::request_scanner::max_depth, "bounded depth");
  must(!out.model.empty() && out.model.size() <= gateway::request_scanner::max_model_bytes, "a model of its size");
  must(out.model_at.length >= 3 && out.model_at.offset + out.model_at.length <= size, "the model lies in the body");
  must(body[out.model_at.offset] == '"' && body[out.model_at.offset + out.model_at.length - 1] == '"', "and is a string");
  must(out.object_at < size && body[out.object_at] == '{', "the object lies in the body");
  must(out.stream_options_at.offset + out.stream_options_at.length <= size, "the options lie in the body");
  must(out.max_tokens.value_or(0) <= 1ull << 40 && out.max_completion_tokens.value_or(0) <= 1ull << 40 && out.max_output_tokens.value_or(0) <= 1ull << 40,
       "bounded limits");
  must(out.output_footprint(false).value_or(0) <= 1ull << 40 && out.output_footprint(true) <= out.output_footprint(false), "bounded footprints");
  must(out.text_bytes <= size && out.text_quarters * 4 <= out.text_bytes && out.messages <= size && out.images <= size, "bounded counts");
  check_spellings(scanner, body, out);
  check_splices(scanner, body, out);
  return 0;
}
