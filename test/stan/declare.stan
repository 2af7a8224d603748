// error: 7:17 `x` is read from the data and cannot be given a value here
// error: 8:1 the data block can only declare variables
// error: 9:18 `k`: parameters cannot be int
// error: 11:17 a local variable cannot be constrained
// error: 12:10 a size must be int, but is real
// error: 14:48 `lower` must be real, but is vector
data { real x = 1;
print("no"); }
parameters { int k; real b; }
model {
  real<lower=0> s;
  vector[2.5] v;
}
generated quantities { vector[2] u; real<lower=u> r; }
