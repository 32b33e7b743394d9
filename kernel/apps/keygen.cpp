#include "apps/keygen.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iostream>

#include "base/digest.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "tenancy/key_text.hpp"

namespace hive::apps {

namespace {

constexpr size_t most_tenant_bytes = 200;  // of a name and an owner in auth.yaml

std::string quoted(std::string_view text) {  // a JSON string is a YAML one
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace

std::string date_of_key(time_t at, int years_later) {
  tm parts;
  gmtime_r(&at, &parts);
  parts.tm_year += years_later;
  timegm(&parts);  // puts right what is no date: 29 February of a year without one is 1 March
  char text[16];
  return {text, std::strftime(text, sizeof text, "%d-%m-%Y", &parts)};
}

int keygen_command(const std::vector<std::string> &arguments) {
  std::string tenant = "my-tenant";
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view flag = arguments[i];
    if (flag.starts_with("--")) flag.remove_prefix(1);
    if (flag.starts_with("-tenant=")) {
      tenant = flag.substr(8);
    } else if (flag == "-tenant" && i + 1 < arguments.size()) {
      tenant = arguments[++i];
    } else {
      std::cerr << "usage: hivenet-router keygen [--tenant NAME]\n";
      return 2;
    }
  }
  const bool control = std::any_of(tenant.begin(), tenant.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (trim(tenant).empty() || tenant.size() > most_tenant_bytes || control) {
    std::cerr << "hivenet-router: a tenant's name has 1 to " << most_tenant_bytes << " bytes and no control character\n";
    return 1;
  }
  std::string name = tenant + " key";
  if (name.size() > most_tenant_bytes) name = tenant;
  const time_t now = time(nullptr);
  std::array<uint8_t, 32> random;
  randombytes_buf(random.data(), random.size());
  std::string key = tenancy::key_text(random);
  sodium_memzero(random.data(), random.size());
  std::cout << "The key, shown only now:\n  " << key << "\n\nIts entry under api.keys of auth.yaml:\n"
            << "    - key_hash: \"" << sha256_hex(key) << "\"\n"
            << "      key_preview: \"" << tenancy::preview_of(key) << "\"\n"
            << "      metadata:\n"
            << "        name: " << quoted(name) << "\n"
            << "        owner: " << quoted(tenant) << "\n"
            << "        description: \"\"\n"
            << "        created_at: \"" << date_of_key(now, 0) << "\"\n"
            << "        # expires_at: \"" << date_of_key(now, 1) << "\"\n"
            << "      # models: []\n"
            << "      quota:\n"
            << "        requests_per_minute: 100\n"
            << "        tokens_per_day: 500000\n"
            << std::flush;
  wipe(key);
  return std::cout.good() ? 0 : 1;
}

}  // namespace hive::apps
