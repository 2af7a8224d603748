// error: 12:8 `noreturn` must return real on every path
// error: 15:12 `wrong` returns int, but this is real
// error: 17:21 `v` is void and cannot return a value
// error: 18:15 `bad` must return int
// error: 19:8 `same` with these arguments is defined already, in line 9
// error: 20:8 `undefined` is declared, but its body is missing
// error: 24:14 argument `x` of `same` must be real, but is vector
functions {
  real same(real x) { return x; }
  real forever() { while (1) { } }
  real throws() { reject("no"); }
  real noreturn(int n) { if (n) return 1; }
  int wrong(int n) {
    if (n) return n;
    return 2.5;
  }
  void v() { return 1; }
  int bad() { return; }
  real same(real y) { return y; }
  real undefined(real x);
}
model {
  vector[2] u;
  print(same(u));
}
