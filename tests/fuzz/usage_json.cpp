// Usage out of complete JSON answers. What it finds there, the observer of streams finds in an event of the same text.
#include "fuzz.hpp"
#include "http/sse_scanner.hpp"

using namespace hive;
using fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const fuzz::exact_copy json({reinterpret_cast<const char *>(data), size});
  const http::token_usage u = http::usage_of_answer(json.text());
  must(u.present || (u.prompt == 0 && u.completion == 0), "no usage, no tokens");
  const http::token_usage spaced = http::usage_of_answer(" \n" + std::string(json.text()) + "\t ");
  must(spaced.present == u.present && spaced.prompt == u.prompt && spaced.completion == u.completion, "white space means nothing");
  if (u.present && json.text().find_first_of("\r\n") == std::string_view::npos) {
    http::sse_scanner s;
    s.feed("data: ");
    s.feed(json.text());
    s.feed("\n\n");
    must(s.facts().usage.present && s.facts().usage.completion >= u.completion, "an event of the same text has usage too");
  }
  return 0;
}
