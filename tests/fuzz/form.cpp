// Uploads in multipart/form-data: a model is found where a strict reader finds one, and nothing behind the body matters.
#include "fuzz.hpp"
#include "gateway/form_scan.hpp"

using namespace hive;
using fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t how = in.byte();
  const std::string type = (how & 1) != 0 ? "multipart/form-data; boundary=x" : std::string(in.take(how >> 1));
  if (!gateway::is_form(type)) return 0;  // whoever calls asks this first
  const fuzz::exact_copy body(in.rest());
  gateway::request_scan out, again;
  const auto refusal = gateway::scan_form(type, body.text(), out);
  const auto second = gateway::scan_form(type, body.text(), again);
  must(refusal.has_value() == second.has_value() && out.model == again.model && out.stream == again.stream, "the same body says the same");
  if (refusal) {
    must(!refusal->message.empty() && refusal->offset <= body.text().size(), "a refusal says why and where");
    return 0;
  }
  must(!out.model.empty() && out.model.size() <= gateway::request_scanner::max_model_bytes, "a model of its size");
  must(body.text().find(out.model) != std::string_view::npos, "the model stands in the body");
  return 0;
}
