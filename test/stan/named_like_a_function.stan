// ok
functions { real f(real a) { return a; } }
transformed data { real f = 1; }
parameters { real mu; }
model { mu ~ normal(f(f), 1); }
