#include "routing/policy_source.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/digest.hpp"
#include "config/yaml.hpp"

namespace hive::routing {

namespace {

constexpr std::string_view global_stem = "_default";

// The name without .yaml or .yml; empty for a file that is no policy.
std::string stem_of(const std::string &file) {
  for (const std::string_view ending : {".yaml", ".yml"})
    if (file.size() > ending.size() && file.ends_with(ending)) return file.substr(0, file.size() - ending.size());
  return {};
}

policy_file read(std::string name, std::string path) {
  policy_file out;
  out.name = std::move(name);
  out.path = std::move(path);
  struct stat about;
  if (::stat(out.path.c_str(), &about) == 0)
    out.modified_ns = static_cast<int64_t>(about.st_mtim.tv_sec) * 1'000'000'000 + about.st_mtim.tv_nsec;
  auto text = config::yaml::read_file(out.path);
  if (text) {
    out.text = *std::move(text);
    out.hash = sha256_hex(out.text);
  } else {
    out.unreadable = text.why();
  }
  return out;
}

// Names of the folder's policies, in their own order, so that what follows does not hang on that of the disk.
result<std::vector<std::string>> list(const std::string &folder) {
  std::error_code error;
  std::filesystem::directory_iterator each(folder, error);
  std::vector<std::string> names;
  while (!error && each != std::filesystem::directory_iterator()) {
    std::error_code ignored;
    const std::string name = each->path().filename().string();
    if (!stem_of(name).empty() && !each->is_directory(ignored)) names.push_back(name);
    each.increment(error);
  }
  if (error) return fail(errc::unavailable, "the folder of policies cannot be read: " + error.message(), folder);
  if (names.size() > most_policy_files)
    return fail(errc::exhausted, std::to_string(names.size()) + " policy files are more than " + std::to_string(most_policy_files) +
                                     "; one document may list many models", folder);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

const policy_file *policy_files::find(const std::string &name) const {
  for (const policy_file &f : named)
    if (f.name == name && f.unreadable.code() != errc::conflict) return &f;
  return nullptr;
}

result<policy_files> read_policy_files(const policy_places &where) {
  policy_files out;
  if (!where.folder.empty()) {
    auto names = list(where.folder);
    if (!names) return names.why();
    for (const std::string &name : *names) {
      const std::string path = (std::filesystem::path(where.folder) / name).string();
      const std::string stem = stem_of(name);
      if (stem == global_stem) {
        if (out.global)
          return fail(errc::conflict, "the global policy has two files, " + out.global->path + " and this one: remove one", path);
        out.global = read({}, path);
        continue;
      }
      policy_file next = read(stem, path);
      if (const policy_file *first = out.find(stem))
        next.unreadable = fail(errc::conflict, "document '" + stem + "' is in " + first->path + " already: remove one of the two files", path);
      out.named.push_back(std::move(next));
    }
    std::stable_sort(out.named.begin(), out.named.end(),
                     [](const policy_file &a, const policy_file &b) { return a.modified_ns < b.modified_ns; });
  }
  if (where.file.empty()) return out;
  if (out.global) out.warnings.push_back(where.file + " is not used: " + out.global->path + " is the global policy");
  else out.global = read({}, where.file);
  return out;
}

}  // namespace hive::routing
