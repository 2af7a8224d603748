// error: 2:1 cannot find "nowhere.stan"
#include nowhere.stan
