// Log earnings on height, sex and their interaction. Data: posteriordb's earnings.
functions {
  // mean 0 and standard deviation 1 over all rows (the sum of squares divided by N)
  vector standardize(vector x) {
    vector[rows(x)] c = x - mean(x);
    return c / sqrt(dot_self(c) / rows(x));
  }
}
data {
  int<lower=1> N;
  vector<lower=0>[N] earn;                 // dollars
  vector[N] height;                        // inches
  vector<lower=0, upper=1>[N] male;
}
transformed data {
  vector[N] y = log(earn);
  vector[N] z = standardize(height);
  matrix[N, 4] X = [rep_row_vector(1, N), z', male', (z .* male)']';
}
parameters {
  vector[4] b;
  real s;                                  // log sigma
}
model {
  b ~ std_normal();
  s ~ std_normal();                        // a density of s itself: sigma is lognormal(0, 1)
  y ~ normal(X * b, exp(s));
}
