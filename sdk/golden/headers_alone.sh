#!/usr/bin/env bash
# Every header compiles by itself: the ABI as C99, C11 and C++20 on gcc and clang, without hidden padding; the C++ layer as
# C++20 on both. A stub includes each one, so that unused inline functions stay quiet.
set -u
include=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
try() {  # compiler, standard, language, extra warnings, header
  local stub=$work/stub.$3
  printf '#include "%s"\ntypedef int stub_is_not_empty;\n' "$5" >"$stub"
  if ! "$1" "-std=$2" -Wall -Wextra -pedantic -Werror $4 -I"$include" -fsyntax-only "$stub"; then
    echo "FAILED: $5 with $1 -std=$2"
    failed=1
  fi
}
for path in "$include"/hive/abi.h "$include"/hive/abi/*.h; do
  header=${path#"$include"/}
  for std in c99 c11; do
    try gcc $std c -Wpadded "$header"
    try clang $std c -Wpadded "$header"
  done
  try g++ c++20 cpp -Wpadded "$header"
  try clang++ c++20 cpp -Wpadded "$header"
done
all=$work/all.hpp
for path in "$include"/hive/sdk/*.hpp; do
  header=${path#"$include"/}
  try g++ c++20 cpp -Wshadow "$header"
  echo "#include \"$header\"" >>"$all"
done
try clang++ c++20 cpp -Wshadow "$all"
exit $failed
