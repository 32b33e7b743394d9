// The policy files of a router as they stand on disk at one moment, read but not yet parsed (docs/policy-api.md). A file's
// document is named by the file: FOLDER/llama3-large.yaml holds the document `llama3-large`, FOLDER/_default.yaml the global one.
// Plain values; whoever reads them waits for the disk, the control thread at a reload, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace hive::routing {

// Either may be empty. The folder's _default wins over the file.
struct policy_places {
  std::string file;      // --policy-file
  std::string folder;    // --policy-model-dir
  bool none() const { return file.empty() && folder.empty(); }
};

struct policy_file {
  std::string name;      // of its document; empty = the global one
  std::string path;
  std::string text;
  std::string hash;      // SHA-256 of the text, hexadecimal; empty when it could not be read
  int64_t modified_ns = 0;
  status unreadable;     // or the second file of one name
};

struct policy_files {
  std::optional<policy_file> global;
  std::vector<policy_file> named;     // oldest first, then by name: the order in which they claim models
  std::vector<std::string> warnings;

  const policy_file *find(const std::string &name) const;  // of a named document
};

inline constexpr size_t most_policy_files = 1000;

// Blocks on the disk. An error: the folder cannot be read, holds too many files, or has two files for the global document.
// Subfolders and files that end neither in .yaml nor in .yml are not policies.
result<policy_files> read_policy_files(const policy_places &);

}  // namespace hive::routing
