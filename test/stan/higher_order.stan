// error: 16:7 `ode_rk45` cannot take
// error: 17:13 `+` cannot join real and
functions {
  vector lin(real t, vector y, real a, vector b) { return a * y + b; }
  array[] real old(real t, array[] real y, array[] real theta, data array[] real x_r, data array[] int x_i) { return y; }
  real part(array[] int slice, int start, int end, vector mu) { return sum(mu[start:end]); }
}
data { int N; array[N] int y; vector[2] y0; array[3] real ts; array[0] real x_r; array[0] int x_i; }
parameters { real a; vector[2] b; vector[N] mu; }
transformed parameters {
  array[3] vector[2] s = ode_rk45(lin, y0, 0, ts, a, b);
  array[3, 2] real o = integrate_ode_rk45(old, to_array_1d(y0), 0, ts, {a}, x_r, x_i);
  real p = reduce_sum(part, y, 1, mu);
  array[3] vector[2] wrong;
  wrong =
      ode_rk45(lin, y0, 0, ts, b, a);
  real no = a +   lin;
}
