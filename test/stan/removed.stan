// error: 8:12 `fabs` is no longer a function: write `abs`
// error: 9:12 `multiply_log` is no longer a function: write `lmultiply`
// error: 10:12 `binomial_coefficient_log` is no longer a function: write `lchoose`
// error: 11:26 `reduce_sum` takes apart an array of int, real, vector, row_vector or matrix
functions { real f(array[] complex z, int from, int to) { return 1; } }
data { array[3] complex z; }
transformed data {
  real a = fabs(-1.2);
  real b = multiply_log(2, 3);
  real c = binomial_coefficient_log(3, 2);
  real d = reduce_sum(f, z, 1);
}
