// error: 9:12 there is no function `exq`; did you mean `exp`?
// error: 10:12 there is no function `normal`; the distribution normal has normal_lpdf
// error: 11:12 `dot_product` cannot take (real, vector)
// error: 12:12 `f` takes 1 argument, but is given 2
// error: 13:12 `g` is void: it has no value
// error: 14:3 the value of `f` is not used
// error: 15:3 `increment_log_prob` is no longer a function: write `target += ...`
functions { real f(real x) { return x; }   void g() { } } model { vector[2] v;
  real a = exq(1);
  real b = normal(0, 1);
  real c = dot_product(1.5, v);
  real d = f(1, 2);
  real e = g();
  f(1);
  increment_log_prob(1);
  real h = sum(exp(log1p(v)) .* inv_logit(v)) + max({1, 2}) + pow(2, 3);
  a = pi() + log_sum_exp(v) + log_sum_exp(1, 2) + rep_array(v, 2, 3)[1, 2, 1];
}
