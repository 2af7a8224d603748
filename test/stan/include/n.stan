#include <deeper.stan>
