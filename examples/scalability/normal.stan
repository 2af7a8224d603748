// n vectors of d independent normals with unknown means. Every element is an observation: under a q of independent parameters
// the log score of a vector is the sum of the log scores of its elements, so nothing is lost, and M draws serve d dimensions.
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
  to_vector(y) ~ normal(to_vector(rep_matrix(theta', n)), 1);
}
