// error: 4:3 write `target += ...`
parameters { real x; }
model {
  increment_log_prob(x);
}
