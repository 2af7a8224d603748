// error: 7:26 `g` is a variable here, which hides the function of that name
functions { real f(real a) { return a; } real g(real a) { return f(a); } }
transformed data { real f = 1; }
parameters { real mu; }
model {
  mu ~ normal(g(f), 1);
  { real g = 2; real h = g(g); }
}
