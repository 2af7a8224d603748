/* eigen.c: eigenvalues and eigenvectors of symmetric matrices, draw by draw, and the way back.
 *
 * With A = V diag(w) V' and V'V = 1, a small symmetric dA changes
 *
 *   dw_i = (V' dA V)_ii,    dV = V (F o (V' dA V)),    F_ij = 1 / (w_j - w_i), 0 where i = j,
 *
 * so the adjoint of A is V (diag(w*) + F o (V' V*)) V', of which the symmetric part is meant. Equal
 * eigenvalues have no eigenvectors of their own: what these would contribute is left out.
 */
#include "vm/work_int.h"

#include "num/linalg.h"

#include <math.h>

/* Numbers that eigen_forward and eigen_backward need, for K rows. */
size_t eigen_room(size_t K) { return 3 * K * K + 3 * K; }

static void take(const double *rows, size_t ld, size_t n, size_t lane, double *out) {
  for (size_t e = 0; e < n; e++) out[e] = rows[e * ld + lane];
}

static void put(double *rows, size_t ld, size_t n, size_t lane, const double *in) {
  for (size_t e = 0; e < n; e++) rows[e * ld + lane] = in[e];
}

void eigen_forward(const EigenRows *r, double *room) {
  size_t K = r->K;
  double *A = room, *w = A + K * K, *V = w + K, *rest = V + K * K;
  for (size_t l = 0; l < r->lanes; l++) {
    take(r->in, r->ld, K * K, l, A);
    if (!la_is_symmetric(A, K) || !la_eigen_symmetric(A, w, V, rest, K))
      for (size_t e = 0; e < K + K * K; e++) w[e] = (double)NAN; /* V is behind w */
    put(r->out, r->ld, K + K * K, l, w);
  }
}

/* P = V' G, then with the factors of eigenvalues, symmetric. */
static void middle(const double *w, const double *V, const double *G, const double *wa, size_t K,
                   double *P) {
  for (size_t e = 0; e < K * K; e++) P[e] = 0;
  for (size_t k = 0; k < K; k++)
    for (size_t i = 0; i < K; i++)
      for (size_t j = 0; j < K; j++) P[i * K + j] += V[k * K + i] * G[k * K + j];
  for (size_t i = 0; i < K; i++) {
    for (size_t j = 0; j < i; j++) {
      double gap = w[j] - w[i], f = gap == 0 ? 0 : 0.5 / gap;
      P[i * K + j] = P[j * K + i] = f * (P[i * K + j] - P[j * K + i]);
    }
    P[i * K + i] = wa[i];
  }
}

/* C = A B' */
static void times_transpose(const double *A, const double *B, size_t K, double *C) {
  for (size_t i = 0; i < K; i++)
    for (size_t j = 0; j < K; j++) C[i * K + j] = la_dot(A + i * K, B + j * K, K);
}

void eigen_backward(const EigenRows *r, double *room) {
  size_t K = r->K;
  double *w = room, *V = w + K, *wa = V + K * K, *G = wa + K, *P = G + K * K;
  for (size_t l = 0; l < r->lanes; l++) {
    take(r->out, r->ld, K + K * K, l, w);
    take(r->out_adj, r->ld, K + K * K, l, wa); /* G is behind wa */
    bool idle = true;
    for (size_t e = 0; e < K + K * K; e++) idle = idle && wa[e] == 0;
    if (idle) continue;
    middle(w, V, G, wa, K, P);
    times_transpose(V, P, K, G); /* P is symmetric */
    times_transpose(G, V, K, P);
    for (size_t e = 0; e < K * K; e++) r->in_adj[e * r->ld + l] += P[e];
  }
}
