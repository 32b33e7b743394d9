#include "engine_sim/prefix_cache.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hive::sim {

uint64_t prefix_cache::enter(std::string_view prompt) {
  constexpr size_t block = tokens_a_block * bytes_a_token;
  std::vector<uint64_t> path;
  for (size_t at = 0; at + block <= prompt.size(); at += block) {
    const uint64_t before = path.empty() ? 0 : path.back();
    path.push_back((std::hash<std::string_view>{}(prompt.substr(at, block)) ^ before) * 0x9E3779B97F4A7C15u);
  }
  uint64_t held = 0;
  while (held < path.size() && at_.contains(path[held])) ++held;
  for (size_t i = path.size(); i-- > 0;) {  // the root last, and so the last to go
    if (const auto found = at_.find(path[i]); found != at_.end()) order_.erase(found->second);
    order_.push_front(path[i]);
    at_[path[i]] = order_.begin();
  }
  for (; order_.size() > most_; order_.pop_back()) at_.erase(order_.back());
  return held * tokens_a_block;
}

}  // namespace hive::sim
