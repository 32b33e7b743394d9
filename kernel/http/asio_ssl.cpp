// The one translation unit that compiles Asio's TLS; tls.cpp sees declarations.
#include <boost/asio/ssl/impl/src.hpp>
