// A regression of which only sums of squares are seen: y2[i] = sum_j (X[i, j]' B + e[i, j])^2. The model block has the prior
// alone; what is observed is simulated in generated quantities. There is no density, so no posterior to lean on:
// pvi fit squares.stan squares.json --simulate y2_sim --observed y2 --score crps_sim --lambda 0
data {
  int<lower=1> n;                          // observations
  int<lower=1> m;                          // outcomes in each sum
  int<lower=1> d;                          // predictors
  array[n] matrix[m, d] X;
  vector<lower=0>[n] y2;
}
parameters {
  vector[d] B;
}
model {
  B ~ std_normal();
}
generated quantities {
  vector<lower=0>[n] y2_sim;
  for (i in 1:n) {
    y2_sim[i] = dot_self(to_vector(normal_rng(X[i] * B, 1)));
  }
}
