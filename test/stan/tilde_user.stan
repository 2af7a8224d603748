// ok
functions {
  real mine_lpdf(real y, real m) { return -square(y - m); }
  real mine_lpdf(vector y, real m) { return -dot_self(y - m); }
  real mine_lcdf(real y, real m) { return 0; }
  real coin_lpmf(int y, real p) { return y ? log(p) : log1m(p); }
}
data { int y; vector[3] v; }
parameters { real<lower=0, upper=1> p; }
model {
  p ~ mine(0.5) T[, 1];
  v ~ mine(p);
  y ~ coin(p);
  target += mine_lupdf(v | p) + coin_lpmf(y | p);
}
