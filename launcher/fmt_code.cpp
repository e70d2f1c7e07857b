// fmt's code, compiled once into hvdrun instead of into every file that formats (fmt's "header
// only" way, which takes three times as long) or out of libfmt.so (which every agent would load).
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// What fmt/format.h declares as templates and defines in fmt/format-inl.h, for the types that
// format() takes.
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
#if FMT_VERSION >= 100000
template void buffer<char>::append(const char*, const char*);
#if FMT_VERSION < 110000
template void vformat_to(buffer<char>&, string_view, vformat_args<>::type, locale_ref);
#endif
#endif

}  // namespace detail
FMT_END_NAMESPACE
