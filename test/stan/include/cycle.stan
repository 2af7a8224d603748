#include cycle.stan
