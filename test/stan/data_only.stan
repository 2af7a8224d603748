// error: 6:22 argument `x` of `f` must be data, but depends on parameters
// error: 5:15 a size here must be known from the data, but `p` is declared in the parameters block
functions { real f(data real x) { return x; } }
data { int N; real d; } parameters { vector[N] p; } transformed parameters {
  vector[size(p)] q; real a = f(d);
  real b = sum(q) +f(p[1]); }
generated quantities { real c = f(p[1]); }
