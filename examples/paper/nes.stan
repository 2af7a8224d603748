// Party identification on ideology and demographics. Data: posteriordb's nes2000 (any nes year fits).
data {
  int<lower=1> N;
  vector[N] partyid7;                      // 1 strong Democrat ... 7 strong Republican
  vector[N] real_ideo;
  vector[N] race_adj;
  array[N] int<lower=1, upper=4> age_discrete;
  vector[N] educ1;
  vector[N] gender;
  vector[N] income;
}
transformed data {
  matrix[N, 9] X;
  for (i in 1:N) {
    int g = age_discrete[i];               // age as a factor; the youngest group is the reference
    X[i] = [1, real_ideo[i], race_adj[i], g == 2, g == 3, g == 4, educ1[i], gender[i], income[i]];
  }
}
parameters {
  vector[9] b;
  real s;                                  // log sigma
}
model {
  b ~ std_normal();
  s ~ std_normal();                        // a half-normal density taken at the log scale: N(0, 1) ...
  target += log(2);                        // ... times two
  partyid7 ~ normal(X * b, exp(s));
}
