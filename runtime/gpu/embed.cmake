# cmake -DIMAGE=file -DOUTPUT=file.cpp -P embed.cmake: the image's bytes as C++.
file(READ ${IMAGE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"gpu/image.hpp\"
namespace libhvd {
namespace {
alignas(16) constexpr unsigned char kImage[] = {${bytes}};
}
const void* kernel_image() { return kImage; }
}  // namespace libhvd
")
