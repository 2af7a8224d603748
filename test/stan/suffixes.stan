// error: 10:19 the outcome of a density (_lpdf) must be real
// error: 10:59 the outcome of a mass function (_lpmf) must be int
// error: 11:21 the outcome of a mass function
// error: 12:7 `c_lcdf` must return real
// error: 15:27 `normal_rng` can be called only in transformed data
// error: 18:9 `~` can stand only in the model block
// error: 21:16 `d_lp` can be called only
// error: 25:13 write `|` behind the first argument
functions {
  real a_lpdf(int y) { return 1; }       real b_lpmf(real y) { return 1; }
  real b2_lpmf(real y) { return 1; }
  int c_lcdf(real y) { return 1; }
  void d_lp(real x) { target += x; x ~ std_normal(); }
  real e_rng(real s) { return normal_rng(0, s); }
  real f(real s) { return normal_rng(0, s); }
}
transformed data {
  1.0 ~ std_normal();
  real x = e_rng(1);
  real y = std_normal_lpdf(1 |);
  if (x > 0) { d_lp(1); }
}
parameters { real p; }
model {
  target += normal_lpdf(p, 0, 1); d_lp(p);
}
