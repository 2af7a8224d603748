// error: 2:12 `y` is not declared
functions {
#include include/wrong.stan
}
