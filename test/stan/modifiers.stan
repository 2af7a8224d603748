// error: 6:7 `lower` is a reserved word and cannot name a variable
// error: 7:7 `upper` is a reserved word and cannot name a variable
// error: 8:7 `offset` is a reserved word and cannot name a variable
// error: 9:7 `multiplier` is a reserved word and cannot name a variable
data {
  int lower;
  int upper;
  int offset;
  int multiplier;
}
parameters { real<lower=0, upper=1> p; real<offset=1, multiplier=2> q; }
