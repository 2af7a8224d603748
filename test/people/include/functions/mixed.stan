// Of a decomposed covariance: theta_L, the elements of its Cholesky factors, from a total size tau, a
// simplex zeta and correlations in (0, 1); and the group effects b = L z.
vector make_theta_L(int len, array[] int p, real dispersion, vector tau, vector scale, vector zeta,
                    vector rho, vector z_T) {
  vector[len] theta_L;
  int zeta_mark = 1;
  int rho_mark = 1;
  int z_T_mark = 1;
  int mark = 1;
  for (i in 1:size(p)) {
    int nc = p[i];
    if (nc == 1) {
      theta_L[mark] = tau[i] * scale[i] * dispersion;
      mark += 1;
    } else {
      matrix[nc, nc] T_i;
      real std_dev;
      real T21;
      real trace_T_i = square(tau[i] * scale[i] * dispersion) * nc;
      vector[nc] pi = segment(zeta, zeta_mark, nc);
      zeta_mark += nc;
      std_dev = sqrt(pi[1] * trace_T_i);
      T_i[1, 1] = std_dev;
      std_dev = sqrt(pi[2] * trace_T_i);
      T21 = 2.0 * rho[rho_mark] - 1.0;
      rho_mark += 1;
      T_i[2, 2] = std_dev * sqrt(1.0 - square(T21));
      T_i[2, 1] = std_dev * T21;
      for (r in 2:(nc - 1)) {
        int rp1 = r + 1;
        vector[r] T_row = segment(z_T, z_T_mark, r);
        real scale_factor = sqrt(rho[rho_mark] / dot_self(T_row)) * std_dev;
        z_T_mark += r;
        std_dev = sqrt(pi[rp1] * trace_T_i);
        for (c in 1:r) T_i[rp1, c] = T_row[c] * scale_factor;
        T_i[rp1, rp1] = sqrt(1.0 - rho[rho_mark]) * std_dev;
        rho_mark += 1;
      }
      for (c in 1:nc) {
        for (r in c:nc) {
          theta_L[mark] = T_i[r, c];
          mark += 1;
        }
      }
    }
  }
  return theta_L;
}

vector make_b(vector z_b, vector theta_L, array[] int p, array[] int l) {
  vector[rows(z_b)] b;
  int b_mark = 1;
  int theta_L_mark = 1;
  for (i in 1:size(p)) {
    int nc = p[i];
    if (nc == 1) {
      real theta_L_start = theta_L[theta_L_mark];
      for (s in b_mark:(b_mark + l[i] - 1)) b[s] = theta_L_start * z_b[s];
      b_mark += l[i];
      theta_L_mark += 1;
    } else {
      matrix[nc, nc] T_i = rep_matrix(0, nc, nc);
      for (c in 1:nc) {
        T_i[c, c] = theta_L[theta_L_mark];
        theta_L_mark += 1;
        for (r in (c + 1):nc) {
          T_i[r, c] = theta_L[theta_L_mark];
          theta_L_mark += 1;
        }
      }
      for (j in 1:l[i]) {
        vector[nc] temp = T_i * segment(z_b, b_mark, nc);
        b_mark -= 1;
        for (s in 1:nc) b[b_mark + s] = temp[s];
        b_mark += nc + 1;
      }
    }
  }
  return b;
}

// The prior of the pieces, added where it is called.
void decov_lp(vector z_b, vector z_T, vector rho, vector zeta, vector tau,
              array[] real regularization, array[] real delta, vector shape, int t,
              array[] int p) {
  int pos_reg = 1;
  int pos_rho = 1;
  target += normal_lpdf(z_b | 0, 1);
  target += normal_lpdf(z_T | 0, 1);
  for (i in 1:t) {
    if (p[i] > 1) {
      vector[p[i] - 1] shape1;
      vector[p[i] - 1] shape2;
      real nu = regularization[pos_reg] + 0.5 * (p[i] - 2);
      pos_reg += 1;
      shape1[1] = nu;
      shape2[1] = nu;
      for (j in 2:(p[i] - 1)) {
        nu -= 0.5;
        shape1[j] = 0.5 * j;
        shape2[j] = nu;
      }
      target += beta_lpdf(rho[pos_rho:(pos_rho + p[i] - 2)] | shape1, shape2);
      pos_rho += p[i] - 1;
    }
  }
  target += gamma_lpdf(zeta | delta, 1);
  target += gamma_lpdf(tau | shape, 1);
}
