// What components may ask of a request beyond its facts: prefix blocks and header fields. One a request, made when its session is
// opened and kept as long; its worker's thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/request_scan.hpp"
#include "http/message.hpp"
#include "routing/session.hpp"

namespace hive::gateway {

// The session that the client names in X-Session-ID, "" = none or longer than 256 bytes.
std::string_view session_of(std::span<const http::field> fields);

// Whether strategies and gates may see the field: it goes to the engine, and its name does not speak of a secret.
bool goes_to_components(std::string_view name, std::span<const http::field> fields);

class request_material final : public routing::on_demand_facts {
 public:
  // All borrowed, until the session is gone.
  request_material(std::string_view body, const request_scan &scan, std::span<const http::field> fields)
      : body_(body), scan_(scan), fields_(fields) {}

  std::span<const uint64_t> prefix_blocks() override;
  std::span<const hive_header> headers() override;

 private:
  std::string_view body_;
  const request_scan &scan_;
  std::span<const http::field> fields_;
  std::vector<uint64_t> blocks_;
  std::vector<std::string> names_;         // lower case
  std::vector<hive_header> headers_;
};

}  // namespace hive::gateway
