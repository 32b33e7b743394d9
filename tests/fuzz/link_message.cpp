// The JSON of the link's cold records and of an agent's metadata: what is accepted says the same when it is written out.
#include "fleet/metadata.hpp"
#include "fuzz.hpp"
#include "link/messages.hpp"

using namespace hive;
using fuzz::must;

namespace {

template <class Parse>
void round_trip(std::string_view text, Parse &&parse) {
  const auto first = parse(text);
  if (!first) return;
  const std::string out = to_json(*first);
  const auto second = parse(out);
  must(second.has_value(), "what was accepted can be written");
  must(to_json(*second) == out, "and is the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t kind = in.byte();
  const fuzz::exact_copy copy(in.rest());
  const std::string_view text = copy.text();
  switch (kind % 9) {
    case 0: round_trip(text, link::parse_hello); break;
    case 1: round_trip(text, link::parse_challenge); break;
    case 2: round_trip(text, link::parse_auth); break;
    case 3: round_trip(text, link::parse_welcome); break;
    case 4: round_trip(text, link::parse_kick); break;
    case 5: round_trip(text, link::parse_heartbeat); break;
    case 6: round_trip(text, link::parse_pong); break;
    case 7:
      if (const auto s = link::parse_signals(text)) {
        must(s->values.size() <= text.size(), "bounded signals");
        std::vector<link::signal_value> values;
        for (const auto &v : s->values) values.push_back({v.name, v.value, v.age_ms});
        const std::string out = to_json(values);
        const auto again = link::parse_signals(out);
        must(again.has_value(), "what was accepted can be written");
      }
      break;
    default: {
      const auto info = fleet::parse_metadata("12D3KooWPeer", text);
      if (!info) {
        must(!info.why().message().empty(), "a refusal says why");
        break;
      }
      using bounds = fleet::metadata_limits;
      must(!info->models.empty() && info->models.size() <= bounds::models + 1, "it serves something, and not everything");
      for (const auto &m : info->models) must(!m.empty() && m.size() <= bounds::text_bytes, "a model has a name");
      must(info->capacity <= bounds::capacity && info->tags.size() <= bounds::tags, "bounded metadata");
    }
  }
  return 0;
}
