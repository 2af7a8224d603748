// Centred by a user function; intercept and slopes as a product of rows.
functions {
  vector centre(vector x, real unit) {
    return (x - sum(x) / num_elements(x)) ./ unit;
  }
}
data {
  int<lower=0> N;
  array[N] int<lower=0, upper=1> switched;
  vector[N] dist;
  vector[N] arsenic;
  vector[N] educ;
}
transformed data {
  matrix[N, 6] x;
  x[ : , 1] = centre(dist, 100);
  x[ : , 2] = centre(arsenic, 1);
  x[ : , 3] = centre(educ, 4);
  {
    int k = 3;
    for (i in 1:2) {
      for (j in i + 1 : 3) {
        k += 1;
        x[ : , k] = x[ : , i] .* x[ : , j];
      }
    }
  }
}
parameters {
  real alpha;
  vector[6] beta;
}
model {
  for (n in 1:N) {
    switched[n] ~ bernoulli_logit(alpha + x[n] * beta);
  }
}
