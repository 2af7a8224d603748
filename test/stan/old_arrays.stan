// error: 3:9 write `array[N, 2] real ... y`, or read the program with
data { int N;
  real y[N, 2]; }
