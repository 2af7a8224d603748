// error: 2:24 write `array[,] real`
functions { void f(real[,] x) { } }
