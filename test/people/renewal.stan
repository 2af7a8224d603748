// EpiNow2 in small: a reproduction number that walks, infections by the renewal equation, reports by a
// delay and a day of the week; local variables are named like functions, functions add to the target.
functions {
  vector discretised_gamma(int n, real mean, real sd) {
    vector[n] pmf;
    real shape = square(mean / sd);
    real rate = mean / square(sd);
    for (i in 1:n) pmf[i] = gamma_cdf(i | shape, rate) - (i > 1 ? gamma_cdf(i - 1 | shape, rate) : 0);
    return pmf / sum(pmf);
  }
  real update_infectiousness(vector infections, vector gt_rev, int seeding, int index) {
    int inf_end = seeding + index - 1;
    int inf_start = max(1, inf_end - num_elements(gt_rev) + 1);
    int pmf_accessed = min(num_elements(gt_rev), inf_end);
    int start = num_elements(gt_rev) - pmf_accessed + 1;
    return dot_product(infections[inf_start:inf_end], tail(gt_rev, pmf_accessed)) + 0 * start;
  }
  vector generate_infections(vector R, int uot, vector gt_rev, real initial, real growth) {
    int ot = num_elements(R);
    vector[uot + ot] infections;
    vector[ot] infectiousness;
    infections[1] = exp(initial);
    for (s in 2:uot) infections[s] = exp(initial + growth * (s - 1));
    for (s in 1:ot) {
      infectiousness[s] = update_infectiousness(infections, gt_rev, uot, s);
      infections[s + uot] = R[s] * infectiousness[s];
    }
    return infections;
  }
  vector convolve_to_report(vector infections, vector delay_rev, int seeding) {
    int t = num_elements(infections);
    int len = num_elements(delay_rev);
    vector[t] reports;
    for (s in 1:t) {
      reports[s] = dot_product(infections[max(1, s - len + 1):s], tail(delay_rev, min(len, s)));
    }
    return tail(reports, t - seeding);
  }
  vector day_of_week_effect(vector reports, array[] int day_of_week, vector effect) {
    vector[num_elements(reports)] scaled;
    for (s in 1:num_elements(reports)) {
      scaled[s] = reports[s] * effect[day_of_week[s]] * num_elements(effect);
    }
    return scaled;
  }
  void report_lp(array[] int cases, vector reports, real rep_phi, int model_type) {
    if (model_type) {
      real sqrt_phi = inv_square(rep_phi);
      cases ~ neg_binomial_2(reports, sqrt_phi);
    } else {
      target += poisson_lpmf(cases | reports);
    }
  }
  real infectiousness(real x) {
    return x;
  }
}
data {
  int<lower=1> t;
  int<lower=1> seeding;
  array[t] int<lower=0> cases;
  array[t] int<lower=1, upper=7> day_of_week;
  int<lower=1> gt_max;
  int<lower=1> delay_max;
  int<lower=0, upper=1> model_type;
}
transformed data {
  vector[gt_max] gt_rev = reverse(discretised_gamma(gt_max, 3, 1.5));
}
parameters {
  real<lower=0> R0;
  real initial;
  real growth;
  vector[t - 1] noise;
  real<lower=0> rw_sd;
  real<lower=0> delay_mean;
  simplex[7] day_of_week_simplex;
  real<lower=0> rep_phi;
}
transformed parameters {
  vector[t] R;
  vector[t] reports;
  {
    vector[seeding + t] infections;
    vector[delay_max] delay_rev = reverse(discretised_gamma(delay_max, delay_mean, 1));
    R[1] = log(R0);
    R[2:t] = log(R0) + rw_sd * cumulative_sum(noise);
    R = exp(R);
    infections = generate_infections(R, seeding, gt_rev, initial, growth);
    reports = convolve_to_report(infections, delay_rev, seeding);
    reports = day_of_week_effect(reports, day_of_week, day_of_week_simplex);
  }
}
model {
  real infectiousness = 1;
  R0 ~ lognormal(0, 0.5);
  initial ~ normal(3, infectiousness);
  growth ~ normal(0, 0.2);
  noise ~ std_normal();
  rw_sd ~ normal(0, 0.1) T[0, ];
  delay_mean ~ normal(3, 0.5) T[0, ];
  day_of_week_simplex ~ dirichlet(rep_vector(5, 7));
  rep_phi ~ normal(0, 1) T[0, ];
  report_lp(cases, reports, rep_phi, model_type);
}
