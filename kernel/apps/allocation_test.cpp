#include <gtest/gtest.h>

#include <new>

namespace {

constexpr size_t too_much = size_t{1} << 62;

// Naive variant: the allocator's own operator new, which ends the process.
TEST(allocation, what_cannot_be_had_is_an_exception_or_null_and_never_the_end) {
  constexpr std::align_val_t page{4096};
  EXPECT_THROW((void)::operator new(too_much), std::bad_alloc);
  EXPECT_THROW((void)::operator new[](too_much), std::bad_alloc);
  EXPECT_THROW((void)::operator new(too_much, page), std::bad_alloc);
  EXPECT_THROW((void)::operator new[](too_much, page), std::bad_alloc);
  EXPECT_EQ(::operator new(too_much, std::nothrow), nullptr);
  EXPECT_EQ(::operator new[](too_much, std::nothrow), nullptr);
  EXPECT_EQ(::operator new(too_much, page, std::nothrow), nullptr);
  EXPECT_EQ(::operator new[](too_much, page, std::nothrow), nullptr);
}

TEST(allocation, what_is_had_is_aligned_and_can_be_given_back) {
  for (const size_t to : {size_t{64}, size_t{4096}}) {
    void *p = ::operator new(100, std::align_val_t{to});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % to, 0u);
    ::operator delete(p, std::align_val_t{to});
  }
  delete[] new char[100];
  delete new int;
}

}  // namespace
