// ok
functions {
#include include/square.stan
}
data {
#include "include/n.stan"
}
model {
  print(sq(N));
}
