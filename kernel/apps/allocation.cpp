// Memory that cannot be had is std::bad_alloc in both programs. Debian's mimalloc is built as C: its operator new ends the process
// instead, and with it every request there is. For the whole process, plugins included; what is freed goes to the library's delete.
#include <mimalloc.h>

#include <cstddef>
#include <new>

namespace {

void *had(void *p) {
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

void *operator new(size_t n) { return had(mi_malloc(n)); }
void *operator new[](size_t n) { return had(mi_malloc(n)); }
void *operator new(size_t n, const std::nothrow_t &) noexcept { return mi_malloc(n); }
void *operator new[](size_t n, const std::nothrow_t &) noexcept { return mi_malloc(n); }
void *operator new(size_t n, std::align_val_t to) { return had(mi_malloc_aligned(n, static_cast<size_t>(to))); }
void *operator new[](size_t n, std::align_val_t to) { return had(mi_malloc_aligned(n, static_cast<size_t>(to))); }
void *operator new(size_t n, std::align_val_t to, const std::nothrow_t &) noexcept { return mi_malloc_aligned(n, static_cast<size_t>(to)); }
void *operator new[](size_t n, std::align_val_t to, const std::nothrow_t &) noexcept { return mi_malloc_aligned(n, static_cast<size_t>(to)); }
