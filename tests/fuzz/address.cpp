// Addresses, base URLs and durations as operators write them.
#include "base/text.hpp"
#include "config/address.hpp"
#include "fuzz.hpp"
#include "http/client.hpp"

using namespace hive;
using fuzz::must;

namespace {
template <class T>
bool says_why(const result<T> &r) {
  return r || !r.why().message().empty();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const fuzz::exact_copy copy({reinterpret_cast<const char *>(data), size});
  const std::string_view text = copy.text();
  const auto address = config::parse_address(text);
  must(says_why(address), "a refusal says why");
  if (address) {
    const auto again = config::parse_address(address->text());
    must(again && *again == *address, "an address written out is the same address");
  }
  const auto host = config::parse_announce(text);
  must(says_why(host) && (!host || !host->empty()), "an announced host is one");
  if (const auto url = config::parse_base_url(text)) {
    const auto again = config::parse_base_url(*url);
    must(again && *again == *url, "a base URL is in its final form");
  }
  const auto origin = http::parse_origin(text);
  must(says_why(origin), "a refusal says why");
  if (origin) {
    const bool six = origin->host.find(':') != std::string::npos;
    const auto again =
        http::parse_origin("http://" + (six ? "[" + origin->host + "]" : origin->host) + ":" + std::to_string(origin->port) + origin->base);
    must(again && again->host == origin->host && again->port == origin->port && again->base == origin->base, "an origin written out is the same");
  }
  if (const auto ns = parse_duration_ns(text)) must(parse_duration_ns(format_duration(*ns)).has_value(), "a duration shown can be read");
  (void)is_uuid(text);
  (void)trim(text);
  return 0;
}
