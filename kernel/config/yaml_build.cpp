// From parser events to our tree: bounds, duplicate keys, merge keys, aliases.
#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <cstring>
#include <istream>
#include <map>
#include <streambuf>
#include <utility>

#include "config/yaml.hpp"

namespace hive::config::yaml {
namespace {

// Leaves the parser from inside an event; never leaves this file.
struct refused {
  status why;
};

// Every node keeps the keys that lead to it: 64 levels of them stay small.
constexpr size_t most_key_bytes = 512;

class view_buffer final : public std::streambuf {
 public:
  explicit view_buffer(std::string_view text) {
    char *begin = const_cast<char *>(text.data());  // the get area is only read
    setg(begin, begin, begin + text.size());
  }
};

std::string_view line_at(std::string_view text, int line) {  // from 1
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// The parser gives the escapes \N and \_ as one byte, which is no UTF-8; everything else it gives as it should.
std::string with_whole_escapes(const std::string &value) {
  if (simdjson::validate_utf8(value.data(), value.size())) return value;
  std::string out;
  for (size_t at = 0; at < value.size();) {
    const auto lead = static_cast<unsigned char>(value[at]);
    const bool alone = lead == 0x85 || lead == 0xa0;
    const size_t length = alone || lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (alone) out += '\xc2';
    out.append(value, at, length);
    at += length;
  }
  return out;
}

bool indented_by_tab(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  return begin != std::string_view::npos && line.substr(0, begin).find('\t') != std::string_view::npos;
}

}  // namespace

class builder final : public YAML::EventHandler {
 public:
  builder(std::string_view text, std::shared_ptr<const std::string> file, const limits &bounds)
      : text_(text), file_(std::move(file)), bounds_(bounds) {}

  node take() {
    if (!root_.file_) {  // empty text: there was no node, and still the file has a name
      root_.file_ = file_;
      root_.line_ = 1;
    }
    name_paths(root_, "");
    return std::move(root_);
  }
  status wrong(int line, std::string message) const {
    return fail(errc::invalid, std::move(message), *file_ + ":" + std::to_string(line));
  }

  void OnDocumentStart(const YAML::Mark &mark) override {
    if (++documents_ > 1)
      refuse(mark.line + 1, "a second document, or text after the end of the first, begins here; one file holds one document");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark &mark, YAML::anchor_t anchor) override {
    node made = fresh(mark, kind::null);
    made.text_ = null_word(mark, awaits_key());
    add(std::move(made), anchor);
  }
  void OnAlias(const YAML::Mark &mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark.line + 1, "an alias stands inside its own anchor");
    count(found->second.second, mark.line + 1);
    add(found->second.first, 0);
  }
  void OnScalar(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor, const std::string &value) override {
    node made = fresh(mark, kind::scalar);
    made.text_ = with_whole_escapes(value);
    made.quoted_ = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!made.quoted_ && tag != "?") {
      check_tag(tag, mark);
      if (tag == "tag:yaml.org,2002:null") made.kind_ = kind::null;
    }
    add(std::move(made), anchor);
  }
  void OnSequenceStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, kind::list);
  }
  void OnMapStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, kind::map);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override {
    merge(stack_.back().made);
    close();
  }

 private:
  struct frame {
    node made;
    YAML::anchor_t anchor = 0;
    bool has_key = false;
    std::string key;
    int key_line = 0;
    bool key_quoted = false;
    std::map<std::string, int, std::less<>> lines;  // of the keys so far
  };

  [[noreturn]] void refuse(int line, std::string message) const { throw refused{wrong(line, std::move(message))}; }

  void count(size_t more, int line) {
    nodes_ += more;
    if (nodes_ > bounds_.nodes)
      refuse(line, "more than " + std::to_string(bounds_.nodes) + " values once aliases and merge keys are expanded");
  }

  static size_t size_of(const node &n) {
    size_t total = 1;
    for (const node &item : n.items_) total += size_of(item);
    for (const node::entry &entry : n.entries_) total += 1 + size_of(entry.value);  // a key counts where it is written, too
    return total;
  }

  node fresh(const YAML::Mark &mark, yaml::kind kind) {
    count(1, mark.line + 1);
    node made;
    made.kind_ = kind;
    made.line_ = mark.line + 1;
    made.column_ = mark.column + 1;
    made.file_ = file_;
    return made;
  }

  void check_tag(const std::string &tag, const YAML::Mark &mark) const {
    for (const char *known : {"?", "!", "int", "float", "bool", "null", "str", "map", "seq"})
      if (tag == known || tag == std::string("tag:yaml.org,2002:") + known) return;
    refuse(mark.line + 1, "the tag " + tag + " is not supported; leave it out");
  }

  bool awaits_key() const { return !stack_.empty() && stack_.back().made.kind_ == kind::map && !stack_.back().has_key; }

  // The word itself for a null written as one; an empty value is reported at the token that follows it, perhaps a key.
  std::string null_word(const YAML::Mark &mark, bool is_key) const {
    if (mark.pos < 0 || static_cast<size_t>(mark.pos) > text_.size()) return {};
    std::string_view rest = text_.substr(static_cast<size_t>(mark.pos));
    for (const char *word : {"null", "Null", "NULL"}) {
      if (!rest.starts_with(word)) continue;
      rest.remove_prefix(4);
      if (!rest.empty() && std::strchr(" \t\r\n,]}:", rest.front()) == nullptr) return {};
      rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" \t")));
      return rest.starts_with(':') && !is_key ? std::string() : std::string(word);
    }
    return {};
  }

  void open(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor, yaml::kind kind) {
    check_tag(tag, mark);
    if (stack_.size() >= bounds_.depth)
      refuse(mark.line + 1, "nested deeper than " + std::to_string(bounds_.depth) + " levels");
    frame opened;
    opened.made = fresh(mark, kind);
    opened.anchor = anchor;
    stack_.push_back(std::move(opened));
  }

  void close() {
    frame done = std::move(stack_.back());
    stack_.pop_back();
    add(std::move(done.made), done.anchor);
  }

  void add(node made, YAML::anchor_t anchor) {
    if (anchor != 0) {
      const size_t size = size_of(made);
      count(size, made.line_);
      anchors_.insert_or_assign(anchor, std::make_pair(made, size));
    }
    if (stack_.empty()) {
      root_ = std::move(made);
      return;
    }
    frame &parent = stack_.back();
    if (parent.made.kind_ == kind::list) {
      parent.made.items_.push_back(std::move(made));
      return;
    }
    if (awaits_key()) {
      if (made.kind_ != kind::scalar && (made.kind_ != kind::null || made.text_.empty()))
        refuse(made.line_, "a key must be text");
      if (made.text_.size() > most_key_bytes) refuse(made.line_, "a key is longer than " + std::to_string(most_key_bytes) + " bytes");
      parent.has_key = true;
      parent.key = std::move(made.text_);
      parent.key_line = made.line_;
      parent.key_quoted = made.quoted_;
      return;
    }
    const auto [earlier, inserted] = parent.lines.emplace(parent.key, parent.key_line);
    if (!inserted)
      refuse(parent.key_line, "the key \"" + parent.key + "\" stands here and already on line " +
                                  std::to_string(earlier->second) + "; remove one");
    if (made.kind_ == kind::null && made.text_.empty()) made.line_ = parent.key_line;
    parent.has_key = false;
    parent.made.entries_.push_back({std::move(parent.key), parent.key_line, parent.key_quoted, std::move(made)});
  }

  // YAML 1.1 merge: keys written in the map win, then earlier sources win over later ones.
  void merge(node &map) {
    std::vector<node::entry> kept;
    std::vector<node> sources;
    for (node::entry &entry : map.entries_) {
      if (entry.key != "<<" || entry.key_quoted) {
        kept.push_back(std::move(entry));
        continue;
      }
      const bool all_maps = [&] {
        if (entry.value.kind_ != kind::list) return entry.value.kind_ == kind::map;
        for (const node &item : entry.value.items_)
          if (item.kind_ != kind::map) return false;
        return true;
      }();
      if (!all_maps) refuse(entry.key_line, "a merge key (<<) needs a map or a list of maps");
      if (entry.value.kind_ == kind::map) sources.push_back(std::move(entry.value));
      else sources = std::move(entry.value.items_);
    }
    map.entries_ = std::move(kept);
    auto &lines = stack_.back().lines;
    for (node &source : sources)
      for (node::entry &entry : source.entries_)
        if (lines.emplace(entry.key, entry.key_line).second) map.entries_.push_back(std::move(entry));
  }

  void name_paths(node &n, std::string path) {
    for (size_t i = 0; i < n.items_.size(); ++i) name_paths(n.items_[i], path + "[" + std::to_string(i) + "]");
    for (node::entry &entry : n.entries_) name_paths(entry.value, path.empty() ? entry.key : path + "." + entry.key);
    n.path_ = std::move(path);
  }

  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  limits bounds_;
  int documents_ = 0;
  size_t nodes_ = 0;
  node root_;
  std::vector<frame> stack_;
  std::map<YAML::anchor_t, std::pair<node, size_t>> anchors_;
};

result<node> parse(std::string_view text, std::string name, const limits &bounds) {
  if (text.size() > bounds.bytes)
    return fail(errc::exhausted, "larger than " + std::to_string(bounds.bytes) + " bytes", std::move(name));
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") || !simdjson::validate_utf8(text.data(), text.size()))
    return fail(errc::invalid, "not UTF-8 text", std::move(name));
  if (text.find('\0') != std::string_view::npos) return fail(errc::invalid, "holds a zero byte", std::move(name));

  builder build(text, std::make_shared<const std::string>(std::move(name)), bounds);
  try {
    view_buffer buffer(text);
    std::istream in(&buffer);
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(build)) {
    }
    return build.take();
  } catch (const refused &stop) {
    return stop.why;
  } catch (const YAML::Exception &error) {
    const int line = error.mark.is_null() ? 1 : error.mark.line + 1;
    for (const int near : {line, line - 1})
      if (near > 0 && indented_by_tab(line_at(text, near)))
        return build.wrong(near, "a tab is used for indentation; use spaces");
    return build.wrong(line, "not valid YAML: " + error.msg);
  } catch (const std::exception &error) {
    return build.wrong(1, std::string("not valid YAML: ") + error.what());
  }
}

result<std::string> read_file(const std::string &file, size_t most) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const auto failed = [&](errc code, std::string why) {
    if (fd >= 0) ::close(fd);
    return fail(code, std::move(why), file);
  };
  if (fd < 0) return failed(errno == ENOENT ? errc::not_found : errc::unavailable, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat about;
  if (::fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return failed(errc::invalid, "not a regular file");
  std::string text;
  char block[65536];
  for (;;) {
    const ssize_t n = ::read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(errc::unavailable, std::string("cannot be read: ") + std::strerror(errno));
    if (n == 0) break;
    text.append(block, static_cast<size_t>(n));
    if (text.size() > most) return failed(errc::exhausted, "larger than " + std::to_string(most) + " bytes");
  }
  ::close(fd);
  return text;
}

result<node> parse_file(const std::string &file, const limits &bounds) {
  const auto text = read_file(file, bounds.bytes);
  if (!text) return text.why();
  return parse(*text, file, bounds);
}

}  // namespace hive::config::yaml
