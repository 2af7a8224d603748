// The same model with a whole vector as one observation: its log score is one average over draws of d-dimensional densities.
data {
  int<lower=1> n;
  int<lower=1> d;
  matrix[n, d] y;
}
parameters {
  vector[d] theta;
}
model {
  theta ~ std_normal();
  for (i in 1:n) {
    y[i] ~ normal(theta, 1);
  }
}
