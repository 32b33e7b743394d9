// auth.yaml: a file is taken whole or not at all, and every problem says what it is without a hash.
#include "fuzz.hpp"
#include "tenancy/auth_file.hpp"

using namespace hive;
using fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  tenancy::auth_options options;
  options.strict = (in.byte() & 1) != 0;
  options.now_unix_ms = 1'800'000'000'000;
  const fuzz::exact_copy text(in.rest());
  const auto document = tenancy::parse_auth(text.text(), "auth.yaml", options);
  for (const status &p : document.problems) must(!p && !p.text().empty(), "a problem says what");
  must((document.keys == nullptr) == !document.problems.empty(), "whole or not at all");
  if (!document.keys || document.keys->mode() == tenancy::auth_mode::none) return 0;  // everybody's stand-in has no hash
  must(document.keys->keys().empty() == (document.keys->mode() == tenancy::auth_mode::dynamic), "mode api-key has keys, and the file has none of mode dynamic");
  for (const auto &key : document.keys->keys()) {
    must(document.keys->find(key.hash) == &key, "every key is found by its hash");
    must(!key.tenant.empty() && !key.name.empty(), "every key is somebody's");
  }
  return 0;
}
