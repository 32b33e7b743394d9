// The one translation unit that compiles Asio; everything else sees declarations.
#include <boost/asio/impl/src.hpp>
