// Who switches to a safe well: distance, arsenic, education and their interactions. Data: posteriordb's wells_data.
data {
  int<lower=1> N;
  array[N] int<lower=0, upper=1> switched;
  vector[N] dist;                          // metres to the next safe well
  vector[N] arsenic;
  vector[N] educ;                          // years
}
transformed data {
  vector[N] d = (dist - mean(dist)) / 100;
  vector[N] a = arsenic - mean(arsenic);
  vector[N] e = (educ - mean(educ)) / 4;
  matrix[N, 7] X = [rep_row_vector(1, N), d', a', e', (d .* a)', (d .* e)', (a .* e)']';
}
parameters {
  vector[7] b;
}
model {
  b ~ std_normal();
  switched ~ bernoulli_logit(X * b);
}
