// error: 1:1 "cycle.stan" includes itself
#include include/cycle.stan
