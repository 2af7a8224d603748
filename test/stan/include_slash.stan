// ok
functions {
#include /include/twice.stan
}
