// The one translation unit that compiles Beast; everything else sees declarations.
#include <boost/beast/src.hpp>
