// error: 4:1 the data block must stand before the parameters block
// error: 5:1 a second parameters block
parameters { real a; }
data { int N; }
parameters { real b; }
