// What a host may look like where an operator writes one. Pure functions, any thread.
#pragma once

#include <string_view>

namespace hive {

bool is_v4(std::string_view host);         // 127.0.0.1
bool is_v6(std::string_view host);         // ::1, with a zone or without: fe80::1%eth0; no brackets
bool is_ip_literal(std::string_view host); // one of both
bool is_host_name(std::string_view host);  // letters, digits, '-', '.' and '_', at most 253, and not digits and dots alone
// This machine: localhost in any case, an address of 127.0.0.0/8, or ::1; no brackets, nothing is resolved.
bool is_loopback(std::string_view host);

}  // namespace hive
