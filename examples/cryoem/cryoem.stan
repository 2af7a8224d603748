// Images of single molecules, as cryoem.c makes them, for small sizes: fft2 and complex matrices in Stan. What is observed is
// simulated in generated quantities, so that no density is needed:
// pvi fit cryoem.stan images.json --simulate y_sim --observed y --score energy --family spline
// `image` holds, without noise, those of D given defoci: what cryoem --check=1 compares.
functions {
  // the lens's factor at all frequencies
  matrix transfer(int P, real field, real defocus) {
    real w = defocus * 2 * pi() * 1e4 * 0.019866;
    matrix[P, P] h;
    for (a in 1 : P) {
      for (b in 1 : P) {
        real fa = (a <= P / 2 ? a - 1 : a - 1 - P) / field;
        real fb = (b <= P / 2 ? b - 1 : b - 1 - P) / field;
        real k2 = square(fa) + square(fb);
        h[a, b] = (-0.1 * cos(0.5 * w * k2) - sqrt(0.99) * sin(0.5 * w * k2)) * exp(-25 * k2) / 0.1;
      }
    }
    return h;
  }
  // the projection of the beads on pixels
  matrix project(int P, real field, vector x, vector z) {
    int B = num_elements(x);
    matrix[P, B] gx;
    matrix[P, B] gz;
    for (a in 1 : P) {
      real at = (a - 1 - P / 2) * field / P;
      gx[a] = exp(-square(at - x') / 12.5) / (2.5 * sqrt(2 * pi()));
      gz[a] = exp(-square(at - z') / 12.5) / (2.5 * sqrt(2 * pi()));
    }
    return gx * gz' / B;
  }
  // through the lens, then scaled to mean 0 and variance 1 inside the disc
  vector seen(matrix projection, matrix h, array[] int disc) {
    int P = rows(h);
    matrix[P, P] J = get_real(inv_fft2(fft2(projection) .* h));
    vector[P * P] flat = to_vector(J');
    return (flat - mean(flat[disc])) / sd(flat[disc]);
  }
}
data {
  int<lower=2> P; // pixels of a side
  int<lower=2> K; // conformations
  int<lower=1> B; // beads
  int<lower=1> N; // images
  int<lower=0> D; // given defoci
  array[K] vector[B] x; // Angstrom
  array[K] vector[B] z;
  vector<lower=0, upper=1>[D] u; // defocus, from 1 to 2 micrometres
  array[N] vector[P * P] y;
  real<lower=0> snr;
}
transformed data {
  real field = 160;
  array[P * P] int inside;
  for (a in 1 : P) {
    for (b in 1 : P) {
      inside[(a - 1) * P + b] = square(a - 1 - P / 2.0) + square(b - 1 - P / 2.0) < P * P / 4.0;
    }
  }
  array[sum(inside)] int disc;
  {
    int n = 0;
    for (k in 1 : (P * P)) {
      if (inside[k]) {
        n += 1;
        disc[n] = k;
      }
    }
  }
}
parameters {
  real theta;
}
transformed parameters {
  real<lower=0, upper=K - 1> opening = (K - 1) * inv_logit(theta);
  matrix[P, P] projection;
  {
    // on the line between two conformations: hats, so that nothing depends on theta but numbers
    vector[B] at_x = rep_vector(0, B);
    vector[B] at_z = rep_vector(0, B);
    for (k in 1 : K) {
      real hat = fmax(0, 1 - abs(opening - k + 1));
      at_x += hat * x[k];
      at_z += hat * z[k];
    }
    projection = project(P, field, at_x, at_z);
  }
}
model {
  theta ~ normal(0, 1.5);
}
generated quantities {
  array[D] vector[P * P] image;
  array[N] vector[P * P] y_sim;
  for (d in 1 : D) {
    image[d] = seen(projection, transfer(P, field, 1 + u[d]), disc);
  }
  for (n in 1 : N) {
    real defocus = uniform_rng(1, 2);
    y_sim[n] = to_vector(normal_rng(seen(projection, transfer(P, field, defocus), disc), 1 / sqrt(snr)));
  }
}
