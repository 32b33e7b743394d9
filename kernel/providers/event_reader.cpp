#include "providers/event_reader.hpp"

namespace hive::providers {

bool event_reader::end_line() {
  constexpr std::string_view bom = "\xEF\xBB\xBF", field = "data";
  std::string_view line = line_;
  if (first_ && line.starts_with(bom)) line.remove_prefix(bom.size());
  first_ = false;
  if (line.empty()) {
    line_.clear();
    return has_data_;
  }
  if (line.starts_with(field) && (line.size() == field.size() || line[field.size()] == ':')) {
    line.remove_prefix(std::min(line.size(), field.size() + 1));
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  }
  line_.clear();
  return false;
}

}  // namespace hive::providers
