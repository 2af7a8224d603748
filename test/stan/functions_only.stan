// ok
functions {
  void say(data real x, int n) {
    if (n > 0) print("x = ", x, ", n = ", n);
    return;
  }
  int fib(int n) {
    if (n < 2) return n;
    else return fib(n - 1) + fib(n - 2);
  }
  real last(vector v);
  real twice(vector v) { return 2 * last(v); }
  real last(vector v) { return v[size(v)]; }
  real last(array[] real v) { return v[size(v)]; }
  tuple(real, vector) pair(real a, vector b) { return (a, b); }
}
