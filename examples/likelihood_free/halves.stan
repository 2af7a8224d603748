// The regression of squares.stan, in half of the space: B and -B have the same likelihood, and one of the two is enough for predictions. The element
// that is positive is the one that the data speak of most clearly, so that hardly any of the posterior is near its bound.
// pvi npe halves.stan squares.json --simulate y2_sim --observed y2
data {
  int<lower=1> n;                          // observations
  int<lower=1> m;                          // outcomes in each sum
  int<lower=1> d;                          // predictors
  array[n] matrix[m, d] X;
  vector<lower=0>[n] y2;
}
transformed data {
  int<lower=1, upper=d> k;                 // whose squares go with the outcomes most
  {
    vector[d] moment = rep_vector(0, d);
    for (i in 1:n) {
      for (l in 1:d) {
        moment[l] += (y2[i] - mean(y2)) * dot_self(X[i][, l]);
      }
    }
    k = sort_indices_desc(moment)[1];
  }
}
parameters {
  real<lower=0> positive;
  vector[d - 1] others;
}
transformed parameters {
  vector[d] B = append_row(append_row(others[1:(k - 1)], positive), others[k:(d - 1)]);
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
