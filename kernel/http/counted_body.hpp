// Bodies with the count of their bytes against the program's byte budget (base/byte_budget.hpp). Loop thread only, as their share.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/byte_budget.hpp"
#include "http/message.hpp"

namespace hive::http {

// The count lives as long as anybody holds the body.
struct counted_body {
  explicit counted_body(byte_share *of) : claim(of) {}
  std::string bytes;
  byte_claim claim;
};

// A body that did not come off a connection: counted until nobody holds it. Requires: room for body_padding. `of` null: not counted.
inline body_ptr counted(byte_share *of, std::string bytes) {
  const auto made = std::make_shared<counted_body>(of);
  made->bytes = std::move(bytes);
  made->claim.set(made->bytes.size());
  return body_ptr(made, &made->bytes);
}

}  // namespace hive::http
