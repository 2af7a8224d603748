// error: 12:7 there is no distribution `norml`; did you mean `normal`?
// error: 13:7 behind `~` stands the distribution without its ending: `normal`
// error: 14:7 `normal_lpdf` cannot take (real, vector, matrix)
// error: 15:7 `poisson_lpmf` cannot take (real, real)
// error: 16:30 cannot truncate `poisson_log` here: no poisson_log_lccdf
// error: 17:25 a truncation point must be int or real, but is vector
data { int n; vector[2] v; matrix[2, 2] m; }
parameters { real x; }
model {
  x ~ normal(v, 1) T[0, ];
  n ~ poisson(x) T[1, 5];
  x ~ norml(0, 1);
  x ~ normal_lpdf(0, 1);
  x ~ normal(v, m);
  x ~ poisson(1.5);
  n ~ poisson_log(1.5)    T[ 1, ];
  x ~ normal(0, 1) T[0, v];
}
